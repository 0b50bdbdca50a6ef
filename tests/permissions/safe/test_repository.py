"""What the policy allows of git starts nothing that a repository configures: real git is run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

import pytest

from prsm_core.engine.processes.launcher import child_environment
from prsm_core.permissions.safe.gitconfig import parse_config
from tests.permissions.judging import decide

GIT = shutil.which("git")
GIT_VERSION = tuple(
    int(part)
    for part in re.findall(
        r"\d+", subprocess.run([GIT or "true", "--version"], capture_output=True, text=True).stdout
    )[:2]
)
pytestmark = pytest.mark.skipif(GIT is None, reason="git is not installed")

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


def external_diff(place):
    set_key(place, "diff.external", str(place / "canary"))


def textconv(place):
    attributes(place, "*.txt diff=x\n")
    set_key(place, "diff.x.textconv", str(place / "canary"))


def driver(place):
    attributes(place, "*.txt diff=x\n")
    set_key(place, "diff.x.command", str(place / "canary"))


def clean_filter(place):
    attributes(place, "*.txt filter=x\n")
    set_key(place, "filter.x.clean", str(place / "canary"))


def process_filter(place):
    attributes(place, "*.txt filter=x\n")
    set_key(place, "filter.x.process", str(place / "canary"))


def large_file_filter(place):
    attributes(place, "*.txt filter=lfs\n")
    set_key(place, "filter.lfs.clean", str(place / "canary"))


def hook(place):
    path = place / "work/.git/hooks/post-index-change"
    path.parent.mkdir(exist_ok=True)
    shutil.copy(place / "canary", path)


def hooks_elsewhere(place):
    folder = place / "work/hooks"
    folder.mkdir()
    shutil.copy(place / "canary", folder / "post-index-change")
    set_key(place, "core.hooksPath", "hooks")


def signature(place):
    set_key(place, "log.showSignature", "true")
    set_key(place, "gpg.program", str(place / "canary"))


def included(place):
    (place / "work/extra").write_text(f"[core]\n\tfsmonitor = {place}/canary\n")
    set_key(place, "include.path", "../extra")


def included_if(place):
    (place / "work/extra").write_text(f"[core]\n\tfsmonitor = {place}/canary\n")
    set_key(place, "includeIf.gitdir:/.path", "../extra")
    set_key(place, f"includeIf.gitdir:{place}/.path", "../extra")


def of_a_work_tree(place):
    set_key(place, "extensions.worktreeConfig", "true")
    set_key(place, "core.repositoryformatversion", "1")
    path = place / "work/.git/config.worktree"
    path.write_text(f"[core]\n\tfsmonitor = {place}/canary\n")


def odd_writing(place):
    path = place / "work/.git/config"
    path.write_text(path.read_text() + f'[CoRe]; x\n\tFsMonitor\t=\t"{place}"\\\n/can"ary" # no\n')


def on_the_line_of_its_section(place):
    path = place / "work/.git/config"
    path.write_text(path.read_text() + f"[core] fsmonitor={place}/canary\n")


def file_for_a_folder(place):
    work = place / "work"
    (work / ".git").rename(work / "inside")
    (work / ".git").write_text("gitdir: inside\n")
    (work / "inside/config").write_text(
        (work / "inside/config").read_text() + f"[core]\n\tfsmonitor = {place}/canary\n"
    )


def shared_folder(place):
    work = place / "work"
    (work / ".git").rename(work / "inside")
    (work / ".git").mkdir()
    for name in ("HEAD", "index"):
        shutil.copy(work / "inside" / name, work / ".git" / name)
    (work / ".git/commondir").write_text("../inside\n")
    (work / "inside/config").write_text(
        (work / "inside/config").read_text() + f"[core]\n\tfsmonitor = {place}/canary\n"
    )


def submodule(place):
    other = place / "work/sub"
    other.mkdir()
    git(place, other, "init -q -b main")
    (other / "b").write_text("b\n")
    git(place, other, "add .", "commit -q -m b")
    git(place, place / "work", "add sub", "commit -q -m sub")
    path = other / ".git/config"
    path.write_text(path.read_text() + f"[core]\n\tfsmonitor = {place}/canary\n")


HOSTILE = [
    fsmonitor, pager, pager_of_one, external_diff, textconv, driver, clean_filter, process_filter,
    large_file_filter, hook, hooks_elsewhere, signature, included, included_if, of_a_work_tree,
    odd_writing, on_the_line_of_its_section, file_for_a_folder, shared_folder, submodule,
]  # fmt: skip


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
    assert ran or make is signature, "the repository is not hostile"  # no commit is signed
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
    ["[core", '[core]\nfsmonitor = "x', "x = 1\n", "[core]\n= 1\n", "[a]\nb = c\\", '[a "b]\n'],
)
def test_a_configuration_that_cannot_be_read_is_asked_about(place, text):
    assert not parse_config(text).readable
    (place / "work/.git/config").write_text(text)
    assert decide("git status", place / "work") == "ask"


def test_settings_are_read_as_git_reads_them(tmp_path):
    path = tmp_path / "config"
    path.write_text(
        '[A "B c\\"d\\\\"]\n\tKey = "x # y"  z ; c\n\tbare\n[core] k=v\n# c\n\tl = a\\\n b\\tc\n'
        '[x.Y]\n\tk = \n\tq = a"b"c"" \n'
    )
    told = subprocess.run(
        ["git", "config", "--file", str(path), "--null", "--list"],
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    expected = []
    for entry in filter(None, told.split("\0")):
        key, newline, value = entry.partition("\n")
        expected.append((key, value if newline else "true"))
    assert list(parse_config(path.read_text()).settings) == expected
