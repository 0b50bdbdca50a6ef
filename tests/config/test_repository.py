"""Trust is of one folder and its repository, and not of whatever comes to its path."""

import json
import os
import shutil
import subprocess

import pytest

from prsm_core.config import resolve_paths, trust
from prsm_core.config.own_rules import change_rule
from prsm_core.config.snapshot import take_snapshot

ALLOW = "permissions: {allow: [frob]}\n"


def git(folder, *words):
    who = ("-c", "user.name=a", "-c", "user.email=a@b.invalid", "-c", "commit.gpgsign=false")
    return subprocess.run(
        ("git", "-C", folder, *who, *words), check=True, capture_output=True, text=True
    ).stdout


def make(folder, text="first\n"):
    """Make a repository that brings rules along."""
    (folder / ".prism").mkdir(parents=True)
    (folder / ".prism" / "config.yaml").write_text(ALLOW)
    (folder / "file").write_text(text)
    commit(folder)


def commit(folder):
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "one")


@pytest.fixture
def paths(tmp_path):
    """A repository that is trusted."""
    make(tmp_path / "work")
    found = resolve_paths(tmp_path / "work", {"PRSM_HOME": str(tmp_path / "home")})
    trust.trust(found)
    assert trust.is_trusted(found)
    return found


def clone_anew(paths):
    origin = paths.workspace.with_name("origin")
    paths.workspace.rename(origin)
    git(origin.parent, "clone", "-q", str(origin), str(paths.workspace))


def restore(paths):
    shutil.copytree(paths.workspace, paths.workspace.with_name("copy"), symlinks=True)
    shutil.rmtree(paths.workspace)
    paths.workspace.with_name("copy").rename(paths.workspace)


def replace_history(paths):
    shutil.rmtree(paths.workspace / ".git")
    (paths.workspace / "file").write_text("of somebody else\n")
    commit(paths.workspace)


def drop_history(paths):
    shutil.rmtree(paths.workspace / ".git")


OTHERS = {
    "a clone of the same at its path": (clone_anew, "folder"),
    "a copy at its path": (restore, "folder"),
    "another history in its folder": (replace_history, "repository"),
    "no history any more": (drop_history, "repository"),
}


@pytest.mark.requirement("E24")
@pytest.mark.parametrize("change", OTHERS)
def test_what_else_comes_to_the_path_is_not_trusted(paths, change):
    digest = take_snapshot(paths.workspace).digest
    replace, what = OTHERS[change]
    replace(paths)
    assert take_snapshot(paths.workspace).digest == digest
    standing = trust.check_trust(paths)
    assert not standing.trusted
    assert what in (standing.lost or "")
    assert not trust.review(paths).trusted
    change_rule(paths, "deny", ("rm",), project=True)
    assert not trust.is_trusted(paths), "a change of the user's own begins no trust"
    trust.trust(paths)
    assert trust.is_trusted(paths)


@pytest.mark.requirement("E24")
def test_the_same_repository_stays_trusted(paths):
    (paths.workspace / "file").write_text("second\n")
    commit(paths.workspace)
    git(paths.workspace, "checkout", "-q", "--orphan", "pages")
    assert trust.is_trusted(paths)
    moved = paths.workspace.with_name("moved")
    paths.workspace.rename(moved)
    assert not trust.is_trusted(resolve_paths(moved, {"PRSM_HOME": str(paths.data.parent)}))
    moved.rename(paths.workspace)
    assert trust.is_trusted(paths), "it is back"
    change_rule(paths, "allow", ("make",), project=True)
    assert trust.is_trusted(paths)


@pytest.mark.requirement("E24")
@pytest.mark.parametrize("part", ["device", "inode", "born"])
def test_each_mark_of_the_folder_counts(paths, part):
    path = paths.data / "trust.json"
    known = json.loads(path.read_text())
    [grant] = known.values()
    if grant["folder"][part] is None:
        pytest.skip("the file system of the temp folder notes no birth times")
    grant["folder"][part] += 1
    path.write_text(json.dumps(known))
    assert not trust.is_trusted(paths)


def test_a_root_is_known_of_a_whole_history_alone(tmp_path):
    make(tmp_path / "whole")
    (tmp_path / "whole" / "file").write_text("second\n")
    commit(tmp_path / "whole")
    head, root = git(tmp_path / "whole", "rev-list", "HEAD").split()
    assert trust.root_commits(tmp_path / "whole") == (root,)
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{tmp_path}/whole", str(tmp_path / "cut"))
    assert git(tmp_path / "cut", "rev-list", "HEAD").split() == [head]
    assert trust.root_commits(tmp_path / "cut") == ()
    (tmp_path / "new").mkdir()
    assert trust.root_commits(tmp_path / "new") == ()
    git(tmp_path / "new", "init", "-q")
    assert trust.root_commits(tmp_path / "new") == ()


def test_what_git_cannot_say_is_not_trusted(paths, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert "repository" in (trust.check_trust(paths).lost or "")


def test_a_birth_time_is_that_of_the_file_system(tmp_path):
    told = subprocess.run(
        ("stat", "-c", "%W", tmp_path), check=True, capture_output=True, text=True
    ).stdout.strip()
    born = trust.birth_time(tmp_path)
    assert (born or 0) // 10**9 == int(told)
    assert trust.birth_time(tmp_path / "nothing") is None


HOSTILE = """
[core]
\tfsmonitor = {0}
\tsshCommand = {0}
\thooksPath = {1}
\tgitProxy = {0}
\tpager = {0}
\talternateRefsCommand = {0}
[remote "origin"]
\turl = ext::{0}
\tpromisor = true
\tuploadpack = {0}
\tvcs = evil
[extensions]
\tpartialClone = origin
[pager]
\trev-list = {0}
\tcat-file = {0}
"""


@pytest.mark.requirement("E24")
@pytest.mark.parametrize("url", ["ext::{0}", "ssh://host/x", "file:///nowhere"])
def test_asking_for_the_root_starts_nothing_of_the_repository(paths, tmp_path, monkeypatch, url):
    bin_, ran = tmp_path / "bin", tmp_path / "ran"
    bin_.mkdir()
    for name in ("program", "git-remote-evil", "post-checkout", "reference-transaction"):
        (bin_ / name).write_text(f"#!/bin/sh\necho $0 >> {ran}\n")
        (bin_ / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_}:{os.environ['PATH']}")
    text = HOSTILE.replace("ext::{0}", url).format(bin_ / "program", bin_)
    config = paths.workspace / ".git" / "config"
    old = config.read_text().replace("repositoryformatversion = 0", "repositoryformatversion = 1")
    config.write_text(old + text)
    [root] = trust.root_commits(paths.workspace)
    assert trust.has_commits(paths.workspace, [root])
    assert not trust.has_commits(paths.workspace, ["1" * 40])
    assert not ran.exists()
