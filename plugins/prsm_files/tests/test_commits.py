"""Accepted changes are committed alone: not what is pending, staged, or a person's own edit."""

import os
import shutil
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from plugins.prsm_files.tests.commits_scene import TEXT, Committed, edited, why
from plugins.prsm_files.tests.shadow_scene import DirectGit
from prsm_core.errors import ConfigError

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@pytest.fixture
def scene(tmp_path):
    scene = Committed(tmp_path)
    scene.write("a", edited())
    scene.write("b", "b\n")
    scene.commit("first")
    scene.begin()
    return scene


@pytest.mark.requirement("U6")
def test_what_is_accepted_is_committed_and_all_else_stays_as_it_is(scene):
    accepted = scene.change("a", edited(n2="accepted\n"))
    scene.change("a", edited(n2="accepted\n", n10="pending\n"), agent="w2")
    scene.by_person("a", edited(n2="accepted\n", n10="pending\n", n30="a person's\n"))
    scene.write("staged", "staged\n")
    scene.git("add", "staged")
    outcome = scene.commit_accepted(accepted)
    [one] = outcome.commits
    assert (one.files, one.changes, outcome.left) == (("a",), ("c0",), ())
    assert scene.git("rev-parse", "HEAD") == one.id
    assert scene.at("HEAD:a") == edited(n2="accepted\n")
    assert scene.at(":a") == edited(n2="accepted\n")
    assert scene.status() == {"a": " M", "staged": "A "}
    assert (
        scene.git("log", "-1", "--format=%an <%ae> %cn|%B") == "n <e@x> n|by w1\n\nPRSM-Agent: w1"
    )
    assert scene.git("show", "--format=", "--name-only", "HEAD") == "a"
    assert scene.git("reflog", "-1", "--format=%gs") == "commit (prsm): by w1"


def test_each_agent_has_a_commit_and_what_builds_on_anothers_comes_after_it(scene):
    first = scene.change("a", edited(n2="one\n"))
    second = scene.change("a", edited(n2="one, two\n"), agent="w2")
    third = scene.change("a", edited(n2="one, two, three\n"))
    outcome = scene.commit_accepted(first, second, third)
    assert [one.message.split()[1] for one in outcome.commits] == ["w1", "w2", "w1"]
    assert scene.status() == {}
    texts = [scene.at(f"HEAD~{n}:a").splitlines()[2] for n in (2, 1, 0)]
    assert texts == ["one", "one, two", "one, two, three"]


def test_what_does_not_merge_onto_head_is_left_out_and_told(scene):
    pending = scene.change("a", edited(n2="pending\n"), agent="w2")
    accepted = scene.change("a", edited(n2="pending, and more\n"))
    other = scene.change("b", "c\n")
    outcome = scene.commit_accepted(accepted, other)
    assert why(outcome) == {"c1": "HEAD has other lines where it changed some"}
    assert scene.at("HEAD:a") == edited()
    assert scene.at("HEAD:b") == "c\n"
    assert len(scene.commit_accepted(pending, accepted).commits) == 2


def test_what_head_has_already_needs_no_commit(scene):
    accepted = scene.change("b", "c\n")
    scene.commit("by the person")
    outcome = scene.commit_accepted(accepted)
    assert [(one.id, one.commit) for one in outcome.held] == [
        ("c0", scene.git("rev-parse", "HEAD"))
    ]
    assert (outcome.commits, outcome.left) == ((), ())


def test_kinds_of_changes_are_committed_as_they_are(scene):
    odd = os.fsdecode(b"odd-\xff\n")
    scene.write("run", "x\n", mode=0o755)
    scene.write(odd, "1\n")
    (scene.folder / "link").symlink_to("b")
    (scene.folder / "b").unlink()
    scene.write("dir/new", "x\n")
    (scene.folder / "a").chmod(0o755)
    outcome = scene.commit_accepted(scene.found())
    assert outcome.left == ()
    listed = scene.git_raw("ls-tree", "-r", "-z", "HEAD")
    modes = {line.split("\t")[1]: line.split()[0] for line in listed.split("\0") if line}
    assert modes == {
        "a": "100755",
        "dir/new": "100644",
        "link": "120000",
        odd: "100644",
        "run": "100755",
    }
    assert scene.status() == {}


@pytest.mark.parametrize("order", ["deletion", "alone"])
def test_a_folder_in_the_place_of_a_file_needs_both_changes(scene, order):
    (scene.folder / "b").unlink()
    gone = scene.found()
    made = scene.change("b/c", "x\n")
    if order == "deletion":
        assert scene.commit_accepted(gone, made).left == ()
        assert scene.at("HEAD:b/c") == "x\n"
    else:
        outcome = scene.commit_accepted(made)
        assert why(outcome) == {"c1": "a file and a folder have the same name there"}
        assert scene.at("HEAD:b") == "b\n"


@pytest.mark.parametrize("staged", ["same", "elsewhere", "there", "removed", "intent", "conflict"])
def test_what_was_staged_stays_staged(scene, staged):
    accepted = scene.change("a", edited(n2="accepted\n"))
    whole = scene.read("a")
    if staged == "same":
        scene.git("add", "a")
    elif staged in {"elsewhere", "there"}:
        line = {"n30": "staged\n"} if staged == "elsewhere" else {"n2": "staged\n"}
        scene.write("a", edited(**line))
        scene.git("add", "a")
        scene.write("a", whole)
    elif staged == "removed":
        scene.git("rm", "-q", "--cached", "a")
    elif staged == "intent":
        scene.write("new", "x\n")
        scene.git("add", "-N", "new")
    else:
        blob = scene.git("rev-parse", "HEAD:a")
        zero = "0" * 40
        lines = f"0 {zero}\ta\n100644 {blob} 2\ta\n100644 {blob} 3\ta\n"
        subprocess.run(
            ["git", "update-index", "--index-info"],
            cwd=scene.folder,
            env=scene.environ,
            input=lines,
            text=True,
            check=True,
        )
    before = scene.staged()
    outcome = scene.commit_accepted(accepted)
    if staged in {"there", "removed", "conflict"}:
        assert outcome.commits == ()
        assert "in its way" in why(outcome)["c0"] or "conflicts in the index" in why(outcome)["c0"]
        assert scene.staged() == before
    else:
        assert scene.at("HEAD:a") == edited(n2="accepted\n")
        more = {"n30": "staged\n"} if staged == "elsewhere" else {}
        assert scene.at(":a") == edited(n2="accepted\n", **more)
        if staged == "intent":
            assert scene.status() == {"new": " A"}


EDIT = st.tuples(st.sampled_from(["accepted", "pending", "person", "staged"]), st.integers(0, 12))


@given(st.lists(EDIT, min_size=1, max_size=6, unique_by=lambda one: one[1]))
@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_head_index_and_files_each_have_what_is_theirs(tmp_path_factory, edits):
    """Edits of lines apart from each other, each by somebody else."""
    scene = Committed(tmp_path_factory.mktemp("commits"))
    scene.write("a", edited())
    scene.commit("first")
    scene.begin()
    lines: dict[str, str] = {}
    staged: dict[str, str] = {}
    head: dict[str, str] = {}
    accepted = []
    for who, number in edits:
        line = {f"n{3 * number}": f"{who} {number}\n"}
        lines |= line
        if who == "person":
            scene.by_person("a", edited(**lines))
        elif who == "staged":
            staged |= line
            scene.write("a", edited(**staged))
            scene.git("add", "a")
            scene.by_person("a", edited(**lines))
        else:
            found = scene.change("a", edited(**lines), agent=f"w{number}")
            if who == "accepted":
                head |= line
                accepted.append(found)
    outcome = scene.commit_accepted(*accepted)
    assert outcome.left == ()
    assert len(outcome.commits) == len(accepted)
    assert scene.at("HEAD:a") == edited(**head)
    assert scene.at(":a") == edited(**head, **staged)
    assert scene.read("a") == edited(**lines)


def test_before_the_first_commit_and_without_a_branch(tmp_path, scene):
    scene.git("checkout", "-q", "--detach")
    branch = scene.git("rev-parse", "main")
    scene.commit_accepted(scene.change("a", edited(n2="x\n")))
    assert scene.git("rev-parse", "main") == branch
    assert scene.git("rev-parse", "HEAD~1") == branch
    (tmp_path / "other").mkdir()
    other = Committed(tmp_path / "other")
    other.begin()
    outcome = other.commit_accepted(other.change("new", "x\n"))
    assert other.git("rev-list", "--all") == outcome.commits[0].id
    assert other.status() == {}


@pytest.mark.parametrize("what", ["merge", "rebase", "cherry-pick", "revert", "bisect"])
def test_what_is_under_way_is_ended_first(scene, what):
    accepted = scene.change("b", "c\n")
    file = {"merge": "MERGE_HEAD", "rebase": "rebase-merge", "bisect": "BISECT_LOG"}
    name = file.get(what, f"{what.upper().replace('-', '_')}_HEAD")
    (scene.folder / ".git" / name).write_text(scene.git("rev-parse", "HEAD") + "\n")
    assert_refused(scene, accepted, "under_way", f"git {what}")


def assert_refused(scene, accepted, code, hint, git=None):
    """See that nothing is committed, and that the error says what to do."""
    before = scene.person(), scene.staged()
    with pytest.raises(ConfigError) as refused:
        scene.committer(git).commit("s", scene.asked(accepted))
    assert refused.value.code == code
    assert hint in (refused.value.hint or "")
    assert (scene.person(), scene.staged()) == before
    assert scene.committer().session is None
    assert not (scene.folder / ".git" / "index.prsm").exists()


def test_a_git_that_is_at_work_is_let_finish(scene):
    accepted = scene.change("b", "c\n")
    lock = scene.folder / ".git" / "index.lock"
    lock.touch()
    assert_refused(scene, accepted, "index_locked", "delete that file")
    assert lock.exists()


def test_a_person_whom_git_does_not_know_is_told_how_to_say_who_it_is(scene):
    accepted = scene.change("b", "c\n")
    (scene.home / ".gitconfig").write_text("")
    assert_refused(scene, accepted, "no_identity", "git config --global user.name")


class Meanwhile(DirectGit):
    """A git beside which something else happens, before its first command of a name."""

    def __init__(self, command, work):
        super().__init__()
        self.command, self.work = command, work

    def __call__(self, args, **more):
        if self.work is not None and self.command in args:
            work, self.work = self.work, None
            work()
        return super().__call__(args, **more)


@pytest.mark.parametrize("command", ["read-tree", "commit-tree", "update-ref"])
@pytest.mark.parametrize("what", ["commit", "branch"])
def test_a_head_that_moves_meanwhile_stays_where_it_is(scene, command, what):
    accepted = scene.change("b", "c\n")
    moved = scene.git("commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "another")
    scene.git("branch", "other", moved)

    def move():
        if what == "commit":
            scene.git("update-ref", "refs/heads/main", moved)
        elif command != "update-ref":  # a checkout waits for the lock of the index
            scene.git("symbolic-ref", "HEAD", "refs/heads/other")
        else:
            scene.git("update-ref", "refs/heads/main", moved)

    with pytest.raises(ConfigError) as refused:
        scene.committer(Meanwhile(command, move)).commit("s", scene.asked(accepted))
    assert refused.value.code == "moved"
    assert scene.git("rev-parse", "HEAD") == moved
    assert not (scene.folder / ".git" / "index.lock").exists()
    assert scene.committer().session is None


def test_what_is_staged_meanwhile_is_not_overwritten(scene):
    accepted = scene.change("b", "c\n")

    def stage():
        scene.write("new", "x\n")
        scene.git("add", "new")

    with pytest.raises(ConfigError) as refused:
        scene.committer(Meanwhile("commit-tree", stage)).commit("s", scene.asked(accepted))
    assert refused.value.code == "moved"
    assert scene.status() == {"b": " M", "new": "A "}


def test_no_program_of_a_configuration_runs(scene, tmp_path):
    """Neither hooks, wherever they are, nor filters, monitors, signers or editors."""
    mark = tmp_path / "ran"
    program = tmp_path / "program"
    program.write_text(f'#!/bin/sh\necho "$0" >> {mark}\nexec cat\n')
    program.chmod(0o755)
    hooks = scene.folder / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in (
        "pre-commit",
        "commit-msg",
        "post-commit",
        "reference-transaction",
        "post-index-change",
        "prepare-commit-msg",
    ):
        shutil.copy(program, hooks / name)
    with (scene.home / ".gitconfig").open("a") as file:
        file.write(f"hooksPath = {hooks}\nfsmonitor = {program}\neditor = {program}\n")
        file.write(f"[commit]\ngpgSign = true\n[gpg]\nprogram = {program}\n")
        file.write(f'[filter "f"]\nclean = {program}\nsmudge = {program}\nrequired = true\n')
    accepted = scene.change("b", "c\n")
    filtered = scene.change("x.bin", "x\n")
    (scene.folder / ".git" / "info" / "attributes").write_text("*.bin filter=f\n")
    outcome = scene.commit_accepted(accepted, filtered)
    ran = mark.read_text() if mark.exists() else ""
    assert "hooks" not in ran
    assert why(outcome) == {"c1": "git has a filter convert it (f): stage it with `git add`"}
    assert scene.git_raw("cat-file", "commit", "HEAD").count("gpgsig") == 0


@pytest.mark.parametrize("how", ["attributes", "autocrlf", "binary"])
def test_line_ends_are_stored_as_the_repository_has_them(tmp_path, how):
    scene = Committed(tmp_path)
    if how == "autocrlf":
        scene.git("config", "core.autocrlf", "true")
    scene.write(".gitattributes", "* -text\n" if how == "binary" else "*.txt text\n")
    scene.write("a.txt", "".join(TEXT).replace("\n", "\r\n"))
    scene.commit("first")
    scene.begin()
    text = edited(n2="x\n").replace("\n", "\r\n")
    outcome = scene.commit_accepted(scene.change("a.txt", text))
    assert outcome.left == ()
    assert scene.at("HEAD:a.txt") == (text if how == "binary" else edited(n2="x\n"))
    assert scene.status() == {}


@pytest.mark.parametrize("form", ["sha256", "split", "nested", "worktree", "submodule"])
def test_repositories_of_other_forms(tmp_path, form):
    scene = Committed(tmp_path, repository=form != "sha256")
    if form == "sha256":
        scene.git("init", "-q", "--object-format=sha256")
    scene.write("a", edited())
    scene.commit("first")
    top = ""
    if form == "split":
        scene.git("update-index", "--split-index")
    elif form == "worktree":
        scene.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
        scene.folder = tmp_path / "side"
    elif form in {"nested", "submodule"}:
        top = "in/"
        (scene.folder / "in").mkdir()
        scene.git("init", "-q", at=scene.folder / "in")
        scene.write("in/a", edited())
        scene.commit("inner", at=scene.folder / "in")
        if form == "submodule":
            scene.git("add", "in")
            scene.git("commit", "-qm", "with it")
    scene.begin()
    inner = scene.change(f"{top}a", edited(n2="x\n"))
    scene.write(f"{top}b", "b\n")
    outer = scene.change("c", "x\n", agent="w2")
    where = scene.folder / top
    before = scene.git("rev-parse", "HEAD", at=where)
    committer = scene.committer()
    outcome = committer.commit("s", scene.asked(inner, outer))
    committer.finish()
    assert outcome.left == ()
    assert {one.root for one in outcome.commits} == {top.rstrip("/"), ""}
    assert scene.git("show", "HEAD~1:a", at=where).splitlines()[2] == "x"
    assert scene.git("rev-parse", "HEAD~2", at=where) == before
    scene.git("fsck", "--strict", at=where)


def test_a_folder_that_is_no_repository_has_nothing_to_commit_to(tmp_path):
    scene = Committed(tmp_path, repository=False)
    scene.begin()
    accepted = scene.change("a", "x\n")
    outcome = scene.committer().commit("s", scene.asked(accepted))
    assert "`git init`" in why(outcome)["c0"]


def test_a_plan_changes_nothing(scene):
    accepted = scene.change("b", "c\n")
    before = scene.person(), scene.staged(), sorted((scene.folder / ".git").rglob("*"))
    outcome = scene.committer().plan(scene.asked(accepted))
    assert [(one.id, one.files) for one in outcome.commits] == [("", ("b",))]
    assert (scene.person(), scene.staged(), sorted((scene.folder / ".git").rglob("*"))) == before
