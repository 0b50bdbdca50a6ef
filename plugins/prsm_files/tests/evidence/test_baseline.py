"""What git knew before a time, asked of real repositories."""

from __future__ import annotations

import os
import subprocess

import pytest
from prsm_files.session.evidence.evidence import blobs_before

from prsm_core.engine.processes.launcher import ProcessLauncher, install_child_watcher
from prsm_core.kit.clocks import SystemClock
from prsm_core.workspace.identity import is_in_repository

BEGAN = 2_000_000_000.0


@pytest.fixture(scope="module", autouse=True)
def _child_watcher():
    """One thread fewer per child on Python 3.11, as a real run has it."""
    install_child_watcher()


def git(folder, *arguments, at=0):
    date = f"@{at or int(BEGAN) - 100} +0000"
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_COMMITTER_DATE": date}
    name = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", "-C", str(folder), *name, *arguments], check=True, env=env)


@pytest.fixture
def repository(tmp_path):
    """A repository with one commit of before."""
    git(tmp_path, "init", "-q")
    (tmp_path / "sub").mkdir()
    for name in ("a.py", "-b", 'c"d é', "sub/e"):
        (tmp_path / name).write_text(name)
    (tmp_path / "sub" / "e").chmod(0o755)
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "before")
    return tmp_path


@pytest.fixture
async def known(repository):
    """Ask for the blobs of some paths."""
    async with ProcessLauncher(SystemClock()) as launcher:

        async def ask(*paths, folder=repository):
            return await blobs_before(launcher, SystemClock(), str(folder), paths, BEGAN)

        yield ask


async def test_files_are_known_by_their_path_below_the_folder(known, repository):
    found = await known("a.py", "-b", 'c"d é', "sub/e", "new.py")
    assert found.keys() == {"a.py", "-b", 'c"d é', "sub/e"}
    assert (found["a.py"].size, found["a.py"].is_executable) == (4, False)
    below = await known("e", folder=repository / "sub")
    assert below == {"e": found["sub/e"]}
    assert below["e"].is_executable


async def test_what_was_committed_since_is_not_from_before(known, repository):
    before = await known("a.py")
    (repository / "a.py").write_text("changed")
    git(repository, "commit", "-qam", "since", at=int(BEGAN) + 5)
    assert await known("a.py") == before


@pytest.mark.parametrize("empty", [True, False])
async def test_without_a_commit_of_before_nothing_is_known(known, tmp_path, empty):
    other = tmp_path / "sub" / "other"
    other.mkdir()
    git(other, "init", "-q")
    if not empty:
        (other / "a").write_text("x")
        git(other, "add", "-A")
        git(other, "commit", "-qm", "since", at=int(BEGAN) + 5)
    assert await known("a", folder=other) == {}


async def test_outside_of_a_repository_nothing_is_known(known, tmp_path_factory):
    folder = tmp_path_factory.mktemp("plain")
    assert not is_in_repository(str(folder))
    assert await known("a", folder=folder) == {}


def test_folders_below_the_top_are_in_the_repository(repository):
    assert is_in_repository(str(repository))
    assert is_in_repository(str(repository / "sub"))
