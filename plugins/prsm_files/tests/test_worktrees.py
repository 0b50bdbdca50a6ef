"""A worktree has the person's files as they are, and what its agent changes comes back whole."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pytest
from prsm_files.shadow.whereabouts import Where
from prsm_files.worktrees import records
from prsm_files.worktrees.making import folders_left, leave, worktrees_of
from prsm_files.worktrees.worktrees import Whose

from plugins.prsm_files.tests.shadow_scene import every_byte
from plugins.prsm_files.tests.trees_scene import Grove, inside, text
from prsm_core.errors import ConfigError, PrsmError

pytestmark = [
    pytest.mark.requirement("U12"),
    pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed"),
]


@pytest.fixture
def scene(tmp_path):
    return Grove(tmp_path)


def without_ignored(found):
    return {path: one for path, one in found.items() if path != b"ignored"}


def names(scene):
    """Return what is left of worktrees: folders, records, branches, and what git knows."""
    known = scene.where.repository("").glob("*/*/record.json")
    return (
        [str(one) for one in scene.where.trees.glob("*/*")],
        [str(one) for one in known],
        scene.git("branch", "--list", "prsm/*"),
        len(scene.git("worktree", "list").splitlines()),
        list((scene.folder / ".git").glob("worktrees/*")),
    )


NOTHING_LEFT: tuple[list[str], list[str], str, int, list[str]] = ([], [], "", 1, [])


def test_a_worktree_has_the_files_as_they_are_and_its_branch_begins_at_head(scene):
    scene.write("program", "#!/bin/sh\n", mode=0o750)
    scene.write("private", "x\n", mode=0o600)
    (scene.folder / "link").symlink_to("nowhere")
    pipe(scene, "pipe")
    scene.write(os.fsdecode(b"odd-\xff\nname"), b"\0\xff\r\n")
    before, persons = scene.bytes(), scene.everything()
    tree = scene.make()
    del before[b"pipe"]
    assert every_byte(tree.folder) == without_ignored(before)
    assert scene.git("rev-parse", tree.branch) == scene.git("rev-parse", "HEAD")
    assert scene.git("symbolic-ref", "--short", "HEAD", at=tree.folder) == "prsm/ession/w1"
    assert scene.git("diff", "--name-only", at=tree.folder) == "a"
    scene.git("worktree", "remove", "--force", tree.folder)
    scene.git("branch", "-D", tree.branch)
    assert scene.everything() == persons


def test_what_an_agent_changed_is_merged_beside_what_a_person_did_meanwhile(scene):
    persons = scene.everything()
    tree = scene.make()
    inside(tree, "a").write_text(text(n2="the person's\n", n15="the agent's\n"))
    inside(tree, "b").unlink()
    inside(tree, "new/file").parent.mkdir()
    inside(tree, "new/file").write_text("n\n")
    inside(tree, "folder/c").chmod(0o755)
    inside(tree, "untracked").write_text("a secret\nand more\n")
    scene.write("a", text(n2="the person's\n", n8="later\n"))
    scene.write("mine", "m\n")
    outcome = scene.settle(tree)
    assert outcome.result == "merged"
    assert set(outcome.files) == {"a", "b", "new/file", "folder/c", "untracked"}
    assert scene.read("a") == text(n2="the person's\n", n8="later\n", n15="the agent's\n")
    assert scene.read("untracked") == "a secret\nand more\n"
    assert (scene.read("new/file"), scene.read("mine")) == ("n\n", "m\n")
    assert not (scene.folder / "b").exists()
    assert (scene.folder / "folder/c").stat().st_mode & stat.S_IXUSR
    assert scene.trees().finish(tree.id)
    assert names(scene) == NOTHING_LEFT
    assert scene.everything() == persons


def test_the_branch_holds_what_the_agent_did_and_nothing_that_was_in_no_commit(scene):
    tree = scene.make()
    inside(tree, "a").write_text(text(n2="the person's\n", n15="the agent's\n"))
    inside(tree, "untracked").write_text("a secret\nand more\n")
    inside(tree, "staged").unlink()
    inside(tree, "new").write_text("n\n")
    outcome = scene.settle(tree, "a task\n\nin two lines")
    branch = scene.branch(tree)
    assert set(branch) == {".gitignore", "a", "b", "folder/c", "new"}
    assert branch["a"] == text(n15="the agent's\n").rstrip("\n")
    assert {one.path for one in outcome.left_out} == {"untracked", "staged"}
    assert scene.git("log", "-1", "--format=%P %s", tree.branch) == (
        f"{scene.git('rev-parse', 'HEAD')} a task"
    )


def test_what_an_agent_commits_itself_is_told_and_leaks_nothing_either(scene):
    tree = scene.make()
    inside(tree, "new").write_text("n\n")
    scene.git("add", "-A", at=tree.folder)
    scene.git("commit", "-q", "-m", "my own words", at=tree.folder)
    inside(tree, "b").write_text("more\n")
    assert scene.settle(tree).result == "merged"
    assert set(scene.branch(tree)) == {".gitignore", "a", "b", "folder/c", "new"}
    assert "secret" not in scene.git("log", "-p", tree.branch)
    assert scene.git("log", "-1", "--format=%b", tree.branch) == "- my own words"


def test_lines_beside_a_persons_own_are_left_out_of_the_branch(scene):
    tree = scene.make()
    inside(tree, "a").write_text(text(n2="the person's, and the agent's\n"))
    outcome = scene.settle(tree)
    assert (outcome.result, outcome.commit) == ("merged", None)
    assert [one.path for one in outcome.left_out] == ["a"]
    assert scene.git("rev-parse", tree.branch) == scene.git("rev-parse", "HEAD")


def pipe(scene, name):
    os.mkfifo(scene.folder / name)


CONFLICTS = {
    "lines": lambda s, t: (
        inside(t, "a").write_text(text(n2="the agent's\n")),
        s.write("a", text(n2="later\n")),
    ),
    "made": lambda s, t: (inside(t, "x").write_text("1"), s.write("x", "2")),
    "deleted": lambda s, t: (inside(t, "b").write_text("1"), (s.folder / "b").unlink()),
    "deletes": lambda s, t: (inside(t, "b").unlink(), s.write("b", "2")),
    "binary": lambda s, t: (inside(t, "b").write_bytes(b"\0a"), s.write("b", b"\0b")),
    "folder": lambda s, t: (inside(t, "d").write_text("1"), s.write("d/e", "2")),
    "pipe": lambda s, t: (inside(t, "p").write_text("1"), pipe(s, "p")),
    "repository": lambda s, t: (
        s.git("init", "-q", "inner", at=t.folder),
        inside(t, "inner/file").write_text("1"),
    ),
}


@pytest.mark.parametrize("name", CONFLICTS)
def test_where_one_file_does_not_merge_nothing_is_written_and_all_is_on_the_branch(scene, name):
    tree = scene.make()
    inside(tree, "good").write_text("g\n")
    CONFLICTS[name](scene, tree)
    before, persons = scene.bytes(), scene.everything()
    outcome = scene.settle(tree)
    persons["refs"] = scene.git("for-each-ref")  # its branch has a commit by now
    assert outcome.result == "conflict"
    assert len(outcome.conflicts) == 1
    assert outcome.conflicts[0].why
    assert "good" in scene.branch(tree)
    assert scene.bytes() == before
    assert scene.everything() == persons
    assert not scene.trees().finish(tree.id)
    assert inside(tree, "good").exists()


def test_a_conflict_that_the_agent_resolves_is_merged_after_all(scene):
    tree = scene.make()
    inside(tree, "b").write_text("1\n")
    scene.write("b", "2\n")
    assert scene.settle(tree).result == "conflict"
    inside(tree, "b").write_text("2\n")
    inside(tree, "c").write_text("3\n")
    outcome = scene.settle(tree)
    assert (outcome.result, outcome.files) == ("merged", ("b", "c"))
    assert scene.trees().finish(tree.id)
    assert names(scene) == NOTHING_LEFT


def test_what_is_settled_again_is_told_again_and_only_what_is_new_is_merged(scene):
    tree = scene.make()
    inside(tree, "new").write_text("1\n")
    first = scene.settle(tree)
    scene.write("new", "1\na person's\n")
    assert scene.settle(tree).files == first.files
    assert scene.read("new") == "1\na person's\n"
    inside(tree, "other").write_text("2\n")
    assert scene.settle(tree).result == "merged"
    assert (scene.read("new"), scene.read("other")) == ("1\na person's\n", "2\n")


def test_an_agent_that_changed_nothing_leaves_nothing(scene):
    tree = scene.make()
    inside(tree, "ignored").write_text("built\n")
    assert scene.settle(tree).result == "nothing"
    assert scene.trees().finish(tree.id)
    assert names(scene) == NOTHING_LEFT


def test_what_is_not_wanted_is_kept_on_the_branch_until_it_is(scene):
    tree = scene.make()
    inside(tree, "new").write_text("1\n")
    assert scene.settle(tree, is_wanted=False).result == "kept"
    assert "new" in scene.branch(tree)
    assert not scene.trees().finish(tree.id)
    assert not (scene.folder / "new").exists()
    assert scene.settle(tree).result == "merged"


def test_a_worktree_that_is_written_to_after_its_merge_stays(scene):
    tree = scene.make()
    inside(tree, "new").write_text("1\n")
    scene.settle(tree)
    inside(tree, "late").write_text("2\n")
    assert not scene.trees().finish(tree.id)
    assert inside(tree, "late").exists()


def test_a_worktree_of_a_worktree_is_merged_into_that(scene):
    tree = scene.make()
    inside(tree, "b").write_text("the parent's\n")
    below = scene.make("w2", folder=tree.folder)
    inside(below, "new").write_text("1\n")
    assert inside(below, "b").read_text() == "the parent's\n"
    trees = scene.trees(tree.folder)
    assert trees.settle(below.id, "m").result == "merged"
    assert trees.finish(below.id)
    assert inside(tree, "new").read_text() == "1\n"
    assert not (scene.folder / "new").exists()
    assert scene.settle(tree).result == "merged"
    assert scene.read("new") == "1\n"


def test_ends_of_lines_are_as_the_repository_wants_them(tmp_path):
    scene = Grove(tmp_path, is_dirty=False)
    scene.write(".gitattributes", "*.txt text eol=crlf\n")
    scene.write("t.txt", "1\r\n2\r\n3\r\n4\r\n5\r\n6\r\n")
    scene.commit()
    scene.write("t.txt", "person\r\n2\r\n3\r\n4\r\n5\r\n6\r\n")
    tree = scene.make()
    inside(tree, "t.txt").write_bytes(b"person\r\n2\r\n3\r\n4\r\n5\r\nagent\r\n")
    inside(tree, "u.txt").write_bytes(b"new\r\n")
    assert scene.settle(tree).result == "merged"
    shown = scene.git("cat-file", "blob", f"{tree.branch}:t.txt")
    assert shown == "1\n2\n3\n4\n5\nagent"
    assert scene.git("cat-file", "blob", f"{tree.branch}:u.txt") == "new"
    assert (scene.folder / "t.txt").read_bytes() == b"person\r\n2\r\n3\r\n4\r\n5\r\nagent\r\n"


def test_no_program_of_anybodys_configuration_runs(scene, tmp_path):
    trap = tmp_path / "trap"
    ran = tmp_path / "ran"
    trap.write_text(f"#!/bin/sh\necho $0 >> {ran}\n")
    trap.chmod(0o755)
    hooks = scene.folder / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("post-checkout", "reference-transaction", "pre-commit", "post-commit"):
        shutil.copy(trap, hooks / name)
    for name, value in (
        *(("core.fsmonitor", str(trap)), ("gpg.program", str(trap)), ("commit.gpgSign", "true")),
        *(
            ("core.sshCommand", str(trap)),
            ("filter.x.clean", str(trap)),
            ("diff.external", str(trap)),
        ),
    ):
        scene.git("config", name, value)
    tree = scene.make()
    inside(tree, ".gitattributes").write_text("* filter=x\n")
    inside(tree, "new").write_text("1\n")
    assert scene.settle(tree).result == "merged"
    inside(tree, "more").write_text("1\n")
    outcome = scene.settle(tree)
    assert {one.path for one in outcome.left_out} >= {"more", "new"}
    assert scene.trees().finish(tree.id)
    assert not ran.exists(), ran.read_text()


def unborn(scene):
    shutil.rmtree(scene.folder / ".git")
    scene.git("init", "-q")


def merging(scene):
    scene.git("stash", "-q")
    scene.git("checkout", "-q", "-b", "other")
    scene.write("b", "1\n")
    scene.commit()
    scene.git("checkout", "-q", "main")
    scene.write("b", "2\n")
    scene.commit()
    scene.git("merge", "-q", "other", check=False)


def submodule(scene):
    inner = scene.folder / "inner"
    inner.mkdir()
    scene.git("init", "-q", at=inner)
    (inner / "x").write_text("1")
    scene.commit(at=inner)


REFUSED = {
    "no repository": (lambda s: shutil.rmtree(s.folder / ".git"), "git init"),
    "no commit": (unborn, "git commit --allow-empty"),
    "a merge": (merging, "git merge --abort"),
    "a repository inside": (submodule, "region"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_where_none_can_be_made_the_cure_is_told_and_nothing_is_left(scene, name):
    spoil, cure = REFUSED[name]
    spoil(scene)
    with pytest.raises(ConfigError) as refused:
        scene.make()
    assert refused.value.code == "no_worktree"
    assert cure in (refused.value.hint or "")
    assert not list(scene.where.trees.glob("*/*"))


def test_a_bare_repository_has_none(tmp_path, scene):
    scene.git("clone", "-q", "--bare", str(scene.folder), str(tmp_path / "bare"))
    with pytest.raises(ConfigError, match="bare"):
        scene.make(folder=tmp_path / "bare")


def test_a_detached_head_and_a_sparse_tree_are_no_hindrance(tmp_path):
    scene = Grove(tmp_path, is_dirty=False)
    scene.git("sparse-checkout", "set", "--no-cone", "/a", "/.gitignore")
    scene.git("checkout", "-q", "--detach")
    tree = scene.make()
    assert not inside(tree, "folder/c").exists()
    inside(tree, "a").write_text("agent\n")
    assert scene.settle(tree).result == "merged"
    assert set(scene.branch(tree)) == {".gitignore", "a", "b", "folder/c"}
    assert scene.git("status", "--short") == "M a"


def test_two_of_one_name_have_branches_of_their_own(scene):
    scene.git("branch", "prsm/ession/w1")
    tree = scene.make()
    assert tree.branch == "prsm/ession/w1-2"
    assert scene.make().branch == "prsm/ession/w1-3"


def test_a_worktree_is_made_again_where_it_was(scene):
    tree = scene.make()
    scene.settle(tree)
    assert scene.trees().finish(tree.id)
    scene.write("later", "1\n")
    again = scene.make(again=tree.id)
    assert again.folder == tree.folder
    assert inside(again, "later").exists()
    with pytest.raises(ConfigError, match="already"):
        scene.make(again=tree.id)


def test_a_branch_that_a_person_moved_is_theirs(scene):
    tree = scene.make()
    inside(tree, "new").write_text("1\n")
    scene.settle(tree)
    scene.git("commit", "-q", "--allow-empty", "-m", "more", at=tree.folder)
    assert scene.trees().finish(tree.id)
    assert "prsm/ession/w1" in scene.git("branch")


def test_without_git_there_is_an_error_and_nothing_is_left(scene):
    def no_git(*_, **__):
        raise PrsmError("git cannot be started")

    works, scene.run = scene.run, no_git
    with pytest.raises(PrsmError):
        scene.make()
    scene.run = works
    assert names(scene) == NOTHING_LEFT


def test_a_folder_is_told_to_be_in_a_worktree_by_its_name_alone(tmp_path):
    where = Where(tmp_path / "state", tmp_path / "trees")
    top = tmp_path / "trees" / "key" / "id"
    assert where.top(str(top)) == where.top(str(top / "x" / "y")) == str(top)
    assert where.find(str(top / "x")) == ("key", "id")
    for folder in (tmp_path, tmp_path / "trees", top.parent, top / ".." / ".." / ".." / "x"):
        assert where.top(str(folder)) is None


def test_what_nobody_will_work_in_goes_unless_something_was_done_there(scene):
    idle, busy, known = scene.make("w1"), scene.make("w2"), scene.make("w3")
    inside(busy, "new").write_text("1\n")
    notes = scene.trees().sweep(lambda tree: tree.name != "w3")
    assert len(notes) == 1
    assert not Path(idle.folder).exists()
    assert Path(busy.folder).exists()
    assert Path(known.folder).exists()


def test_worktrees_that_are_given_up_go_with_those_that_were_made_from_them(scene):
    """Whatever is in them; those of other sessions, and what a person has moved, stay."""
    tree = scene.make("w1")
    below = scene.make("w2", folder=Path(tree.folder))
    other = scene.trees().make(Whose("another", "id-w3", "w3")).tree
    inside(tree, "a").write_text("dirty\n")
    assert leave(scene.where, "session") == 2
    assert worktrees_of(scene.where, "session") == []
    assert folders_left(scene.where) == [scene.folder]
    scene.trees().sweep(lambda _: False)
    assert [one.id for one in records.read_all(scene.where, tree.key)] == [other.id]
    assert [Path(one.folder).exists() for one in (tree, below, other)] == [False, False, True]
    assert scene.git("branch", "--list", "prsm/*").split()[-1:] == [other.branch]
    assert folders_left(scene.where) == []
