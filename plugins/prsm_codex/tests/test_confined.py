"""What Codex's sandbox stops, told by the text of a call."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from prsm_codex.confined import Sandbox

from prsm_core.domain.permissions import PermissionRequest

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A repository with another one in it, and beside it a linked worktree and a plain folder."""
    root = tmp_path_factory.mktemp("confined")
    work = root / "work"
    for folder in (work, work / "inner", root / "plain"):
        folder.mkdir()
    for folder in (work, work / "inner"):
        git(folder, "init", "-q")
        git(
            folder, "-c", "user.name=a", "-c", "user.email=b", "commit", "-qm", "x", "--allow-empty"
        )
    git(work, "worktree", "add", "-q", str(root / "linked"))
    (work / "sub").mkdir()
    (root / "there").write_text("x")
    return work


def git(folder, *words):
    subprocess.run(("git", "-C", str(folder), *words), check=True, capture_output=True)


def stopped(folder, command, *, network=False, cwd=None, writable=None):
    roots = (str(folder),) if writable is None else writable
    sandbox = Sandbox(writable=roots, network=network, temp=folder)
    request = PermissionRequest(
        agent_id="a", tool="Bash", command=command, cwd=str(cwd or folder), arguments={}
    )
    return sandbox.hindrance(request)


@pytest.mark.parametrize(
    "command",
    [
        "git add a.txt",
        "git add -n a.txt",
        "git commit -m 'a b'",
        'FOO=1 git commit -m "$(cat msg)"',
        "cd sub && git commit -am x",
        "git -C sub add .",
        "git -c user.name=x --no-pager commit -m y",
        "make && git push",
        "bash -lc 'git add .'",
        "if true; then git stash; fi",
        "git checkout -b x",
        "git branch new",
        "git branch -D old",
        "git tag v1",
        "git remote add o u",
        "git config user.name x",
        "git config set a.b c",
        "git config --global user.name x",
        "git worktree add ../w",
        "git init",
        "git apply --index p.diff",
        "git hash-object -w a",
        "rm -rf .git",
        "echo x > .git/hooks/pre-commit",
        "echo x >> .codex/config.toml",
        "mkdir -p .agents/skills",
        "touch ../beside.txt",
        "echo hi > /opt/made.txt",
        "printf x | tee /opt/made.txt",
        "cp a.txt /opt/a.txt",
        "mv a.txt ../a.txt",
        "mkdir -p /opt/new/deep",
        "rm ../there",
        "touch ~/made.txt",
        "for f in a b; do cp $f /opt; done",
        "cd .. && touch x",
    ],
)
def test_what_writes_a_repository_or_elsewhere_is_stopped(work, command):
    (work / "sub").mkdir(exist_ok=True)
    assert stopped(work, command).startswith("write ")


@pytest.mark.parametrize(
    "command",
    [
        "git status && git diff && git log --oneline",
        "git branch -a; git branch --list 'x*'; git tag -l; git stash list; git remote -v",
        "git config --get user.name; git config --list; git config user.name",
        "git worktree list; git reflog; git notes list; git submodule status",
        "git apply p.diff; git clean -fd; git blame a.txt",
        "git commit --help",
        "cd inner && git commit --allow-empty -m x",
        "git -C inner add .",
        "git init made",
        "git clone . copy",
        "GIT_DIR=/somewhere/.git git add a",
        "git --git-dir=/somewhere/.git add a",
        "cd $SOMEWHERE && git add a && touch ../x",
        "echo x > .gitignore",
        "touch a b 'c d'",
        "touch -r /etc/hosts a",
        "make 2>&1 > /dev/null",
        "mkdir -p ..",
        "rm -f ../never-there",
        "cat /etc/hosts ../there; ls ~",
        "cp /etc/hosts a",
        "cp -t sub a b",
        "rm *.pyc",
        "(cd /opt && ls); touch x",
        "ln -s /etc/hosts link",
        "curl --version",
        "no such ( text",
        "",
    ],
)
def test_what_stays_in_the_folder_or_cannot_be_told_is_not(work, command):
    assert stopped(work, command) is None


def test_a_linked_worktree_writes_elsewhere_and_no_repository_is_made_in_the_folder(work):
    linked, plain = work.parent / "linked", work.parent / "plain"
    assert str(work / ".git") in str(stopped(linked, "git add ."))
    (plain / ".git").mkdir(exist_ok=True)  # as the sandbox may leave one
    assert stopped(plain, "git add .") is None
    (plain / ".git").rmdir()
    assert stopped(plain, "git init") == f"write {plain / '.git'}"
    assert stopped(linked, "git add .", writable=(str(linked), str(work / ".git"))) is None


def test_where_nothing_may_be_written_nothing_is(work):
    for command in ("touch a", "git add a", "echo x > a"):
        assert stopped(work, command, writable=()) is not None
    assert stopped(work, "pytest -q > /dev/null", writable=()) is None


def test_the_network_is_told_apart_where_there_is_none(work):
    assert stopped(work, "curl -s http://127.0.0.1:9/x") == "use the network"
    assert stopped(work, "curl -s http://127.0.0.1:9/x", network=True) is None


def test_a_change_is_told_by_its_paths(work):
    sandbox = Sandbox(writable=(str(work), "/tmp"), network=False, temp=work)  # noqa: S108 - it is judged, not used

    def of(tool, path):
        return sandbox.hindrance(
            PermissionRequest(agent_id="a", tool=tool, cwd=str(work), paths=(str(path),))
        )

    assert of("Edit", work / "a.txt") is None
    assert of("Edit", "/opt/a.txt") == "write /opt/a.txt"
    assert of("Edit", work / ".git" / "config") is not None
    assert of("Read", "/opt/a.txt") is None
