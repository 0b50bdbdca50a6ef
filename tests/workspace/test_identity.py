"""Worktrees of one repository share an identity; nothing else does."""

import os
import re
import shutil
import subprocess

import pytest

from prsm_core.workspace.identity import repo_identity

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def git(folder, *arguments):
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environ |= {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    done = subprocess.run(
        ["git", "-c", "user.name=n", "-c", "user.email=e@x", "-C", str(folder), *arguments],
        env=environ,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "My Project"
    folder.mkdir()
    git(folder, "init", "-q")
    git(folder, "commit", "-q", "--allow-empty", "-m", "first")
    return folder


@needs_git
@pytest.mark.requirement("U5")
def test_all_worktrees_share_the_identity_of_their_repository(repository, tmp_path):
    git(repository, "worktree", "add", "-q", str(tmp_path / "tree"))
    (tmp_path / "tree" / "src").mkdir()
    main, tree = repo_identity(repository), repo_identity(tmp_path / "tree" / "src")
    assert (main.key, main.common_dir) == (tree.key, tree.common_dir)
    assert (main.root, tree.root) == (repository, tmp_path / "tree")


@needs_git
def test_the_identity_is_what_git_says(repository, tmp_path):
    git(repository, "worktree", "add", "-q", str(tmp_path / "tree"))
    (repository / "a" / "b").mkdir(parents=True)
    for folder in (repository, repository / "a" / "b", tmp_path / "tree"):
        found = repo_identity(folder)
        common = git(folder, "rev-parse", "--path-format=absolute", "--git-common-dir")
        assert str(found.common_dir) == common
        assert str(found.root) == git(folder, "rev-parse", "--show-toplevel")


@needs_git
def test_a_bare_repository_and_its_worktrees_share_an_identity(repository, tmp_path):
    bare = tmp_path / "project.git"
    git(tmp_path, "clone", "-q", "--bare", str(repository), str(bare))
    git(bare, "worktree", "add", "-q", str(tmp_path / "tree"))
    assert repo_identity(bare).key == repo_identity(tmp_path / "tree").key
    assert repo_identity(bare).key.startswith("project-")


@needs_git
def test_a_submodule_and_a_clone_are_repositories_of_their_own(repository, tmp_path):
    other = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(repository), str(other))
    git(other, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(repository), "sub")
    keys = {repo_identity(path).key for path in (repository, other, other / "sub")}
    assert len(keys) == 3
    assert repo_identity(other / "sub").root == other / "sub"


@needs_git
def test_a_link_to_a_repository_is_that_repository(repository, tmp_path):
    (tmp_path / "link").symlink_to(repository)
    assert repo_identity(tmp_path / "link") == repo_identity(repository)


@needs_git
def test_the_key_is_readable_and_fit_for_a_folder(repository):
    key = repo_identity(repository).key
    assert re.fullmatch(r"my-project-[0-9a-f]{12}", key)


def test_a_folder_in_no_repository_is_its_own_identity(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "file").write_text("")
    found = repo_identity(tmp_path / "a")
    assert (found.root, found.common_dir) == (tmp_path / "a", tmp_path / "a")
    assert repo_identity(tmp_path).key != found.key
    assert repo_identity(tmp_path / "file") == repo_identity(tmp_path)


def test_a_folder_of_the_same_name_elsewhere_has_another_key(tmp_path):
    one, two = tmp_path / "one" / "app", tmp_path / "two" / "app"
    assert repo_identity(one).key != repo_identity(two).key
    assert repo_identity(one).key.startswith("app-")


@pytest.mark.parametrize("name", ["日本", "...", "x" * 200, "/"])
def test_any_name_gives_a_key(tmp_path, name):
    assert re.fullmatch(r"[a-z0-9][a-z0-9-]{0,39}-[0-9a-f]{12}", repo_identity(tmp_path / name).key)


def test_an_empty_git_folder_is_passed_over_as_git_does(tmp_path):
    (tmp_path / ".git").mkdir()
    (tmp_path / "a").mkdir()
    assert repo_identity(tmp_path / "a").root == tmp_path / "a"


@pytest.mark.parametrize(
    "content", [b"", b"gitdir: nowhere", b"gitdir: /", b"gitdir: a\0b", b"\xff\xfe", b"gitdir:"]
)
def test_a_git_file_that_leads_nowhere_makes_its_folder_the_identity(tmp_path, content):
    (tmp_path / ".git").write_bytes(content)
    (tmp_path / "a").mkdir()
    found = repo_identity(tmp_path / "a")
    assert (found.root, found.common_dir) == (tmp_path, tmp_path)


def test_a_git_file_that_leads_into_a_loop_makes_its_folder_the_identity(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / ".git").write_text("gitdir: loop")
    assert repo_identity(tmp_path).common_dir == tmp_path
