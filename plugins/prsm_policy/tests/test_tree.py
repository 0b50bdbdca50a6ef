"""Readers of whole folders are judged by the secrets below, from an index that is kept."""

from __future__ import annotations

import os

import pytest
from prsm_policy.tree import Bounds, Reach, TreeIndex, Trees

from plugins.prsm_policy.tests.judging import decide
from prsm_core.policies.patterns import part_of
from tests.command_policies import make_policy

EVERYTHING = Reach()


def write(root, *names):
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")


@pytest.fixture
def plain(tmp_path):
    root = tmp_path / "workspace"
    write(root, "README.md", "src/app.py", "src/secrets.py", "node_modules/x/test/key.pem")
    write(root, ".venv/lib/python3/site-packages/certifi/private.pem", ".env.example")
    write(root, ".git/refs/heads/credentials")
    (root / ".git" / "config").write_text('[remote "o"]\n\turl = https://github.com/x/y.git\n')
    return root


SEARCHES = [
    *("grep -rn KEY .", "grep -r KEY", "grep -R KEY .", "grep -rl KEY", "grep -rn -e KEY ."),
    *("rg KEY", "rg --hidden KEY", "rg -uuu KEY .", "rg -g '.en*' KEY", "diff -r . src"),
    *("timeout 9 grep -rn KEY .", "grep --recursive KEY .", "rg -t sh KEY", "egrep -ri key"),
    *("git grep --untracked KEY",),
]


@pytest.mark.requirement("E18")
@pytest.mark.parametrize("command", SEARCHES)
def test_a_search_where_there_is_no_secret_runs(plain, command):
    assert decide(command, plain) == "allow"


@pytest.mark.requirement("E18")
@pytest.mark.parametrize("command", [each for each in SEARCHES if each != "rg KEY"])
def test_a_search_that_would_read_a_hidden_secret_asks(plain, command):
    write(plain, ".env")
    assert decide(command, plain) == "ask"


@pytest.mark.requirement("E18")
@pytest.mark.parametrize(
    "command",
    [
        *(
            "rg KEY",
            "rg -n KEY . src",
            "rg -g '*.py' KEY",
            "rg -t py KEY",
            "rg --glob=*.{ts,tsx} K",
        ),
        *("rg -g '*.{ts,tsx}' K", "grep -rn KEY src", "grep -rn --include=*.py KEY ."),
        *("grep -rn KEY . --include='*.md' --include='*.py'", "grep KEY README.md", "rg --files"),
        *("ls -R", "find . -type f", "diff -rq . src", "rg --hidden --files", "tree -a", "du -a"),
        *("rg -g '!*.lock' KEY", "grep -c KEY README.md", "rg -uu -tpy KEY", "git grep KEY"),
    ],
)
def test_what_a_search_does_not_read_is_not_asked_about(plain, command):
    write(plain, ".env", "conf/.aws/credentials")
    if "{ts,tsx}' " not in command and "{" in command:
        assert decide(command, plain) == "ask"  # braces expand
    else:
        assert decide(command, plain) == "allow"


@pytest.mark.parametrize(
    ("command", "verdict"),
    [
        ("rg KEY", "ask"),
        ("rg -g '*.py' KEY", "allow"),
        ("rg -g '*.[k]ey' KEY", "ask"),
        ("rg -g 'conf/**' KEY", "ask"),
        ("rg --iglob '*.KEY' KEY", "ask"),
        ("grep -rn KEY --exclude-dir=conf .", "allow"),
        ("grep -rn KEY --exclude-dir='c*' .", "ask"),
        ("grep -rn KEY --exclude='*.key' .", "ask"),
        ("grep -rn --exclude=x --include='*.py' KEY .", "ask"),
        ("grep -rn --include='*.py' --exclude=x KEY .", "allow"),
        ("grep -rn --include='[ks]*' KEY .", "ask"),
        ("grep -rn KEY src", "allow"),
        ("cd src && rg KEY", "ask"),
    ],
)
def test_what_narrows_a_search_counts_where_it_is_sure(plain, command, verdict):
    write(plain, "conf/server.key")
    assert decide(command, plain) == verdict


@pytest.mark.parametrize(
    ("ignored", "verdict"),
    [
        ("!.env\n", "ask"),
        ("node_modules\n!.e*\n", "ask"),
        ("!/.aws/\n", "ask"),
        ("*.log\n!keep.log\n!.gitignore\n", "allow"),
        ("!.github\n", "allow"),
        (".env\n", "allow"),
    ],
)
@pytest.mark.parametrize("name", [".gitignore", ".ignore", ".git/info/exclude"])
def test_hidden_files_that_an_ignore_file_brings_back_are_read_by_rg(plain, name, ignored, verdict):
    write(plain, ".env", ".aws/config", name)
    (plain / name).write_text(ignored)
    assert decide("rg KEY", plain) == verdict


def test_links_matter_to_what_follows_them(plain, tmp_path):
    write(tmp_path, "elsewhere/x")
    (plain / "src" / "out").symlink_to(tmp_path / "elsewhere")
    for command in ("grep -R KEY .", "rg -L KEY", "diff -r src docs", "ls -RL", "fd -L x", "du -L"):
        assert decide(command, plain) == "ask"
    for command in ("grep -r KEY .", "rg KEY", "ls -R", "fd x"):
        assert decide(command, plain) == "allow"


def test_a_followed_link_inside_the_workspace_is_looked_through(plain):
    write(plain, "docs/a.md", "conf/server.key")
    (plain / "docs" / "conf").symlink_to(plain / "conf")
    assert decide("grep -r KEY docs", plain) == "allow"
    assert decide("grep -R KEY docs", plain) == "ask"
    (plain / "docs" / "loop").symlink_to(plain / "docs")
    assert decide("grep -R KEY docs src", plain) == "ask"


@pytest.mark.parametrize(
    ("config", "verdict"),
    [
        ("url = https://user:hunter2@example.org/x", "ask"),
        ("url = https://ghp_0123456789abcdef0123@github.com/x", "ask"),
        ("extraheader = AUTHORIZATION: basic x", "ask"),
        ("url = ssh://git@github.com/x/y", "allow"),
        ('[branch "token-refresh"]', "allow"),
    ],
)
def test_the_configuration_of_git_counts_by_what_is_in_it(plain, config, verdict):
    for path in (".git/config", ".git/modules/lib/config"):
        write(plain, path)
        (plain / path).write_text(config)
        assert decide("grep -rn KEY .", plain) == verdict
        (plain / path).write_text("")


def test_a_pipe_is_not_waited_for(plain):
    os.mkfifo(plain / ".gitignore")
    assert decide("rg KEY", plain) == "allow"


class Clock:
    def __init__(self, root):
        self.ns = root.stat().st_mtime_ns + 1

    def __call__(self):
        return self.ns


def index_of(root):
    clock = Clock(root)
    return TreeIndex(str(root), now=clock), clock


@pytest.mark.requirement("E18")
@pytest.mark.parametrize("passed", [0, 5_000_000_000], ids=["at once", "later"])
def test_the_index_sees_every_change(tmp_path, passed):
    write(tmp_path, "a/b/x.py")
    index, clock = index_of(tmp_path)
    assert index.why_not([str(tmp_path)], EVERYTHING, Bounds()) is None
    clock.ns += passed
    assert index.why_not([str(tmp_path)], EVERYTHING, Bounds()) is None
    before = (tmp_path / "a" / "b").stat()
    write(tmp_path, "a/b/.env")
    os.utime(tmp_path / "a" / "b", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert index.why_not([str(tmp_path)], EVERYTHING, Bounds()) == "/a/b/.env may hold a secret"
    (tmp_path / "a" / "b" / ".env").rename(tmp_path / "a" / "b" / "env")
    assert index.why_not([str(tmp_path)], EVERYTHING, Bounds()) is None
    (tmp_path / "a").rename(tmp_path / ".ssh")
    assert index.why_not([str(tmp_path)], EVERYTHING, Bounds()) is not None


def test_a_folder_that_has_not_changed_is_not_read_again(tmp_path):
    for number in range(20):
        write(tmp_path, f"{number}/a.py", f"{number}/b.py")
    index, clock = index_of(tmp_path)
    first, second, third = Bounds(), Bounds(), Bounds()
    index.why_not([str(tmp_path)], EVERYTHING, first)
    index.why_not([str(tmp_path)], EVERYTHING, second)
    assert first.names == second.names == Bounds().names - 60  # it was made a moment ago
    clock.ns += 5_000_000_000
    index.why_not([str(tmp_path)], EVERYTHING, second)
    index.why_not([str(tmp_path)], EVERYTHING, third)
    assert third.names == Bounds().names
    assert third.folders == Bounds().folders - 21


@pytest.mark.parametrize(
    "bounds", [Bounds(folders=5), Bounds(names=5), Bounds(links=0), Bounds(until=0.0)]
)
def test_looking_through_a_folder_is_bounded(tmp_path, bounds):
    for number in range(9):
        write(tmp_path, f"{number}/a.py")
    (tmp_path / "link").symlink_to(tmp_path)
    reach = Reach(follows=True)
    assert TreeIndex(str(tmp_path)).why_not([str(tmp_path)], reach, bounds) is not None
    assert TreeIndex(str(tmp_path)).why_not([str(tmp_path)], reach, Bounds()) is None


def test_a_decision_that_takes_too_long_is_asked_about_and_the_next_goes_on(tmp_path):
    for number in range(10):
        write(tmp_path, f"{number}/a.py")
    index, clock = index_of(tmp_path)
    clock.ns += 5_000_000_000
    assert index.why_not([str(tmp_path)], EVERYTHING, Bounds(names=15)) is not None
    assert index.why_not([str(tmp_path)], EVERYTHING, Bounds(names=15)) is None


def test_few_workspaces_are_kept(tmp_path):
    trees = Trees(size=2)
    first = trees.of("/a")
    assert trees.of("/a") is first
    trees.of("/b")
    trees.of("/c")
    assert trees.of("/a") is not first


def test_what_a_policy_knows_of_a_workspace_follows_its_changes(plain):
    policy = make_policy()
    assert decide("grep -rn KEY .", plain, policy=policy) == "allow"
    write(plain, "src/.env")
    assert decide("grep -rn KEY .", plain, policy=policy) == "ask"
    (plain / "src" / ".env").unlink()
    assert decide("grep -rn KEY .", plain, policy=policy) == "allow"


def test_a_file_is_taken_where_a_pattern_may_match_its_name():
    reach = Reach(narrow=(part_of("*.env"),))
    assert reach.takes(".env")
    assert reach.takes("PROD.ENV")
    assert not reach.takes("app.py")


@pytest.mark.parametrize("command", ["grep -rn [!a]env", "egrep -r x*y", "rg --hidden x*y"])
def test_a_pattern_that_stands_for_nothing_is_no_place_to_search(command, tmp_path):
    (tmp_path / ".env").write_text("key\n")
    assert decide(command, tmp_path) == "ask"
    (tmp_path / ".env").unlink()
    assert decide(command, tmp_path) == "allow"
