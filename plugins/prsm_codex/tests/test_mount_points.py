"""What a killed sandbox of Codex leaves is removed, and nothing else."""

from __future__ import annotations

import fcntl
import os
import subprocess

import pytest
from prsm_codex.confined import Sandbox, path_hash, remove_mount_points
from prsm_testing.fake_clock import FakeClock


@pytest.fixture
def ended():
    """Return the id of a process that has ended."""
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


@pytest.fixture
def running():
    """Return a process that runs until it is killed."""
    with subprocess.Popen(["sleep", "1000"]) as process:
        yield process
        process.kill()


@pytest.fixture
def zombie():
    """Return the id of a process that has ended and that nobody has waited for."""
    process = subprocess.Popen(["true"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    yield process.pid
    process.wait()


@pytest.fixture
def work(tmp_path):
    """Return a folder with the empty folders of a sandbox, and a registry that knows of none."""
    registry(tmp_path).mkdir()
    (registry(tmp_path) / "lock").touch()
    for name in (".git", ".aws"):
        (tmp_path / name).mkdir()
    return tmp_path


def registry(folder):
    return folder / f"codex-bwrap-synthetic-mount-targets-{os.getuid()}"


def register(folder, name, pid, kind="synthetic\n"):
    """Register a helper that uses a path, as Codex does."""
    users = registry(folder) / f"{path_hash(os.fsencode(folder / name)):016x}"
    users.mkdir(exist_ok=True)
    (users / str(pid)).write_text(kind)
    return users


def test_the_hash_of_a_path_is_the_one_that_codex_uses():
    assert f"{path_hash(b'/tmp/.git'):016x}" == "9dddf21f25fb79fe"


async def test_what_a_dead_helper_has_created_is_removed_and_forgotten(work, ended):
    users = register(work, ".git", ended)
    remove_mount_points(work, [str(work)])
    assert not (work / ".git").exists()
    assert not users.exists()
    assert (work / ".aws").is_dir()  # nobody says that Codex has created it


async def test_what_a_helper_still_uses_is_left(work, ended):
    register(work, ".git", ended)
    register(work, ".git", os.getpid(), "existing\n")
    remove_mount_points(work, [str(work)])
    assert (work / ".git").is_dir()


async def test_a_helper_that_nobody_has_waited_for_uses_nothing(work, zombie):
    register(work, ".git", zombie)
    remove_mount_points(work, [str(work)])
    assert not (work / ".git").exists()


async def test_what_codex_has_not_created_is_left(work, ended):
    register(work, ".git", ended, "existing\n")
    remove_mount_points(work, [str(work)])
    assert (work / ".git").is_dir()


async def test_a_folder_that_somebody_uses_by_now_is_left(work, ended):
    (work / ".git" / "HEAD").touch()
    register(work, ".git", ended)
    remove_mount_points(work, [str(work)])
    assert (work / ".git" / "HEAD").exists()


async def test_nothing_is_removed_while_codex_changes_its_registry(work, ended):
    register(work, ".git", ended)
    with (registry(work) / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        remove_mount_points(work, [str(work)])
        assert (work / ".git").is_dir()
    remove_mount_points(work, [str(work)])
    assert not (work / ".git").exists()


async def test_a_codex_that_has_shut_in_nothing_leaves_nothing(tmp_path):
    (tmp_path / ".git").mkdir()
    remove_mount_points(tmp_path, [str(tmp_path)])
    assert (tmp_path / ".git").is_dir()


async def test_a_helper_that_is_about_to_die_is_waited_for(work, running):
    register(work, ".git", running.pid)

    def die(_due):
        running.kill()
        running.wait()

    sandbox = Sandbox(writable=(str(work),), network=False, temp=work)
    await sandbox.clean(FakeClock(on_jump=die), seconds=5)
    assert not (work / ".git").exists()


async def test_a_helper_that_goes_on_is_waited_for_no_longer_than_told(work):
    register(work, ".git", os.getpid())
    sandbox, clock = Sandbox(writable=(str(work),), network=False, temp=work), FakeClock()
    await sandbox.clean(clock, seconds=5)
    assert (work / ".git").is_dir()
    assert 5 <= clock.now() < 6
