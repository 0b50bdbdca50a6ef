"""What a run changed, by what git says: commits, edits, new files; nothing of a repository runs."""

import subprocess
from types import SimpleNamespace

import pytest
from prsm_console.worktree import describe_changes, look_at

from prsm_core.engine.processes.launcher import install_child_watcher
from prsm_core.kit.clocks import SystemClock

CLOCK = SystemClock()


async def look(folder, commit=""):
    """Look at a folder of which git can tell something."""
    found = await look_at(str(folder), CLOCK, commit=commit)
    assert found is not None
    return found


@pytest.fixture(autouse=True)
def watched():
    install_child_watcher()


@pytest.fixture
def git(tmp_path, monkeypatch):
    """Run git in a new repository that has one commit."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    folder = tmp_path / "repo"
    folder.mkdir()

    def run(*words):
        identity = ("-c", "user.name=n", "-c", "user.email=e@example.org")
        subprocess.run(("git", *identity, *words), cwd=folder, check=True, capture_output=True)

    run("init", "-q")
    (folder / "kept.txt").write_text("one\ntwo\n")
    (folder / "dirty.txt").write_text("one\n")
    (folder / "gone.txt").write_text("one\n")
    run("add", "-A")
    run("commit", "-qm", "first")
    return SimpleNamespace(run=run, folder=folder)


async def test_edits_new_files_and_commits_since_the_beginning_are_told(git):
    folder = git.folder
    (folder / "dirty.txt").write_text("mine\n")
    before = await look(folder)
    (folder / "kept.txt").write_text("one\n2\nthree\n")
    git.run("commit", "-qam", "of an agent")
    (folder / "gone.txt").unlink()
    (folder / "new file.txt").write_text("new\n")
    after = await look(folder, before.commit)
    assert describe_changes(before, after) == (
        "changed: 3 files, +2 -2",
        "  gone.txt +0 -1",
        "  kept.txt +2 -1",
        "  new file.txt is new",
        f"  see it all: git diff {before.commit[:12]}; new files: git status",
    )


async def test_what_was_changed_before_is_told_apart(git):
    (git.folder / "dirty.txt").write_text("mine\n")
    before = await look(git.folder)
    assert describe_changes(before, before) == ("no file of the folder was changed",)
    (git.folder / "dirty.txt").write_text("of both\n")
    (git.folder / "kept.txt").write_text("\0")
    after = await look(git.folder, before.commit)
    told = describe_changes(before, after)
    assert told[0] == "changed: 2 files, +1 -1 (what was there before is counted with it)"
    assert "  kept.txt is binary" in told
    git.run("checkout", "-q", "dirty.txt")
    after = await look(git.folder, before.commit)
    assert "  dirty.txt is as it was committed again" in describe_changes(before, after)


async def test_many_files_are_cut_and_names_do_nothing_to_the_terminal(git):
    before = await look(git.folder)
    for number in range(12):
        (git.folder / f"{number:02}\x1b[2J\n").write_text("x")
    told = describe_changes(before, await look(git.folder, before.commit))
    assert told[1] == "  00\\x1b[2J\\n is new"
    assert told[11] == "  … 2 more"


async def test_only_the_folder_of_the_run_is_looked_at(git):
    inner = git.folder / "inner"
    inner.mkdir()
    before = await look(inner)
    (git.folder / "kept.txt").write_text("changed outside\n")
    (inner / "a").write_text("a")
    after = await look(inner, before.commit)
    assert list(after.files) == ["a"]


@pytest.fixture
def fresh(tmp_path):
    """A repository without a commit."""
    subprocess.run(("git", "init", "-q", "fresh"), cwd=tmp_path, check=True)
    return tmp_path / "fresh"


async def test_a_repository_without_a_commit_is_compared_with_nothing(fresh):
    before = await look(fresh)
    (fresh / "a").write_text("a")
    assert list((await look(fresh, before.commit)).files) == ["a"]


async def test_a_folder_without_a_repository_tells_nothing(tmp_path):
    assert await look_at(str(tmp_path), CLOCK) is None
    assert describe_changes(None, None) == ()


@pytest.mark.parametrize("key", ["core.fsmonitor", "diff.external", "filter.x.clean"])
async def test_nothing_that_a_repository_configures_is_run(git, tmp_path, key):
    trace = tmp_path / "trace"
    git.run("config", key, f"touch {trace}; cat")
    (git.folder / ".gitattributes").write_text("* filter=x diff=x\n")
    git.run("config", "diff.x.textconv", f"touch {trace}; cat")
    (git.folder / "kept.txt").write_text("changed\n")
    found = await look_at(str(git.folder), CLOCK)
    assert not trace.exists()
    assert (found is None) == key.startswith("filter"), "git is not asked where it would run it"
