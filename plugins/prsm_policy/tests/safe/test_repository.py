"""What the policy allows of git starts nothing that a repository configures: real git is run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

import pytest

from plugins.prsm_policy.tests.judging import decide
from prsm_core.kit.environment import child_environment

GIT = shutil.which("git")
GIT_VERSION = tuple(
    int(part)
    for part in re.findall(
        r"\d+", subprocess.run([GIT or "true", "--version"], capture_output=True, text=True).stdout
    )[:2]
)
pytestmark = pytest.mark.skipif(GIT is None, reason="git is not installed")


@pytest.fixture(autouse=True)
def _home(tmp_path, monkeypatch):
    """Have git asked with the settings of the person who runs the commands here."""
    monkeypatch.setenv("HOME", str(tmp_path))


COMMANDS = [
    "git status", "git status --short", "git diff", "git diff --stat", "git diff HEAD", "git log",
    "git log -p", "git log --stat", "git show", "git show HEAD", "git describe --always --dirty",
    "git blame a.txt", "git grep hello", "git ls-files", "git ls-files -m", "git stash list",
    "git branch -a", "git tag", "git remote -v", "git shortlog -s HEAD", "git rev-parse HEAD",
    "git cat-file -p HEAD", "git rev-list HEAD", "git reflog", "git worktree list",
    "git --no-pager log -1", "git config --get user.name", "git ls-tree HEAD",
]  # fmt: skip


@pytest.fixture
def place(tmp_path):
    """A workspace with a repository, and a program that only notes that it ran."""
    work = tmp_path / "work"
    work.mkdir()
    canary = tmp_path / "canary"
    canary.write_text(f"#!/bin/sh\necho ran >> {tmp_path}/ran\n")
    canary.chmod(0o755)
    # The pager of a person who runs git at a terminal; what a repository says beats it.
    (tmp_path / ".gitconfig").write_text("[core]\n\tpager = cat\n")
    git(tmp_path, work, "init -q -b main")
    (work / "a.txt").write_text("hello\n")
    (work / "same.txt").write_text("stays\n")
    git(tmp_path, work, "add .", "commit -q -m first")
    (work / "a.txt").write_text("hello, world\n")
    return tmp_path


def environment(place):
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(place),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@b",
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@b",
    }


def git(place, cwd, *commands):
    for command in commands:
        subprocess.run(
            ["git", "-c", "protocol.file.allow=always", *command.split()],
            cwd=cwd,
            env=environment(place),
            check=True,
            capture_output=True,
        )


def run(command, place, cwd, *, terminal=False, env=None):
    """Run a command, at a terminal if wanted; return whether the canary ran."""
    note = place / "ran"
    note.unlink(missing_ok=True)
    (place / "work/a.txt").touch()
    # Same text, another time: git writes that down, and a hook of the index runs. Whether it does
    # for a changed file depends on how soon after the commit the change came.
    unchanged = place / "work/same.txt"
    os.utime(unchanged, (0, unchanged.stat().st_mtime + 1))
    argv = ["bash", "--noprofile", "--norc", "-c", command]
    if terminal:
        argv = ["script", "-qec", command, "/dev/null"]
    subprocess.run(
        argv,
        cwd=cwd,
        env={**environment(place), "TERM": "dumb", **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=10,
        check=False,
    )
    return note.exists()


def set_key(place, key, value):
    git_dir = place / "work/.git"
    subprocess.run(
        ["git", "config", "--file", str(git_dir / "config"), key, value],
        env=environment(place),
        check=True,
    )


def attributes(place, text):
    (place / "work/.gitattributes").write_text(text)


def fsmonitor(place):
    set_key(place, "core.fsmonitor", str(place / "canary"))


def pager(place):
    set_key(place, "core.pager", str(place / "canary"))


def pager_of_one(place):
    set_key(place, "pager.status", str(place / "canary"))
    set_key(place, "pager.branch", str(place / "canary"))


def submodule(place):
    other = place / "work/sub"
    other.mkdir()
    git(place, other, "init -q -b main")
    (other / "b").write_text("b\n")
    git(place, other, "add .", "commit -q -m b")
    git(place, place / "work", "add sub", "commit -q -m sub")
    path = other / ".git/config"
    path.write_text(path.read_text() + f"[core]\n\tfsmonitor = {place}/canary\n")


HOSTILE = [fsmonitor, pager, pager_of_one, submodule]


@pytest.mark.requirement("E23", "E24")
@pytest.mark.parametrize("make", HOSTILE, ids=lambda make: make.__name__)
def test_no_allowed_git_command_starts_what_a_repository_configures(place, make):
    work = place / "work"
    assert decide("git status", work) == "allow"
    make(place)
    pages = make in {pager, pager_of_one}
    if pages and shutil.which("script") is None:
        pytest.skip("script (bsdutils) is not installed")
    ran = [command for command in COMMANDS if run(command, place, work, terminal=pages)]
    assert ran, "the repository is not hostile"
    asked = {command for command in COMMANDS if decide(command, work) != "allow"}
    assert asked >= set(ran)
    assert decide("git --version", work) == "allow"


@pytest.mark.requirement("E23")
@pytest.mark.parametrize("command", ["cd fake && git status", "git status"])
def test_a_tracked_folder_that_looks_like_a_bare_repository_is_asked_about(place, command):
    fake = place / "work/fake"
    for name in ("objects", "refs/heads"):
        (fake / name).mkdir(parents=True)
    (fake / "HEAD").write_text("ref: refs/heads/main\n")
    (fake / "config").write_text(
        "[core]\n\trepositoryformatversion = 0\n\tbare = false\n"
        f'\tworktree = "."\n\tfsmonitor = {place}/canary\n'
    )
    shutil.copytree(place / "work/.git/objects", fake / "objects", dirs_exist_ok=True)
    shutil.copy(place / "work/.git/refs/heads/main", fake / "refs/heads/main")
    shutil.copy(place / "work/.git/index", fake / "index")
    cwd = "." if command.startswith("cd") else "fake"
    assert run(command, place, place / "work" / cwd)
    if GIT_VERSION >= (2, 38):  # a setting that older ones do not know
        assert not run(command, place, place / "work" / cwd, env=child_environment({}))
    assert decide(command, place / "work", cwd=cwd) == "ask"
    assert decide("git status", place / "work") == "allow"


@pytest.mark.parametrize(
    "text",
    [
        '[user]\n\tname = A\n[branch "main"]\n\tremote = origin\n',
        "[core]\n\thooksPath = .husky/_\n",
        "[core]\n\tfsmonitor = true\n\tuntrackedCache = true\n",
        "[core]\n\tsshCommand = ssh -i key\n[credential]\n\thelper = mine\n",
        "[core]\n\teditor = vim\n[alias]\n\tst = !sh\n[pager]\n\tlog = false\n",
        '[filter "lfs"]\n\tclean = git-lfs clean -- %f\n\tprocess = git-lfs filter-process\n',
    ],
)
def test_what_starts_nothing_for_a_look_is_not_asked_about(place, text):
    path = place / "work/.git/config"
    path.write_text(path.read_text() + text)
    for command in ("git status", "git diff", "git log -3"):
        assert decide(command, place / "work") == "allow"


def test_a_change_of_the_configuration_is_seen_at_once(place):
    work = place / "work"
    for _ in range(3):
        path = work / ".git/config"
        before = path.read_text()
        assert decide("git status", work) == "allow"
        fsmonitor(place)
        assert decide("git status", work) == "ask"
        path.write_text(before)


def test_a_missing_object_is_not_fetched_by_a_configured_program(place):
    work = place / "work"
    set_key(place, "remote.origin.url", "ssh://host/x")
    set_key(place, "core.sshCommand", str(place / "canary"))
    assert decide("git log -p", work) == "allow"
    set_key(place, "remote.origin.promisor", "true")
    assert decide("git log -p", work) == "ask"


@pytest.mark.parametrize(
    "text",
    ["[core", '[core]\nfsmonitor = "x', "[core]\n= 1\n", "[core]\nbare = x\n", '[a "b]\n'],
)
def test_a_configuration_that_cannot_be_read_is_asked_about(place, text):
    (place / "work/.git/config").write_text(text)
    assert decide("git status", place / "work") == "ask"


@pytest.mark.requirement("E23")
def test_only_a_remote_that_is_configured_is_shown_unasked(place):
    """git takes another name for a repository that lies here, and starts a program for it."""
    work = place / "work"
    assert decide("git remote show other", work) == "ask"
    git(place, work, "remote add other https://example.com/x")
    for command in ("git remote show other", "git remote show -n other", "git remote show"):
        assert decide(command, work) == "allow"
    for command in ("git remote show origin", "git remote show -n a.txt", "(git remote show x)"):
        assert decide(command, work) == "ask"
