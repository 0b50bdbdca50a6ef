"""One owner a session: refused by name, freed by death, never split."""

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from prsm_core.engine.control.session_lock import SessionLock, find_owner
from prsm_core.engine.processes.table import process_identity
from prsm_core.errors import ConfigError, ControlError, SessionOwnedError

DEADLINE = 60
WORKER = Path(__file__).with_name("lock_worker.py")


def take(state, session="s1", since=1_700_000_000.0):
    return SessionLock.take(state, session, since=since)


def owner_of(state):
    """Return the owner of s1, which there must be."""
    owner = find_owner(state, "s1")
    assert owner is not None
    return owner


@pytest.fixture
def start_worker():
    """Start lock_worker.py; it is ended with the test."""
    started = []

    def start(*args):
        process = subprocess.Popen(
            [sys.executable, str(WORKER), *map(str, args)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate(timeout=DEADLINE)


@pytest.fixture
def holder(start_worker, tmp_path):
    """A process that owns session s1."""
    process = start_worker("hold", tmp_path, "s1")
    assert process.stdout.readline() == b"held\n"
    return process


def test_the_owner_is_who_the_lock_says(tmp_path):
    with take(tmp_path) as lock:
        found = owner_of(tmp_path)
        assert found == lock.owner
        assert found.process == process_identity(os.getpid())
        assert (found.since, found.socket) == (1_700_000_000.0, tmp_path / "runs" / "s1.sock")
        said = json.loads((tmp_path / "runs" / "s1.lock").read_text())
        assert {"pid", "start_time", "boot_id", "socket"} <= said.keys()


def test_a_session_without_a_lock_has_no_owner_and_looking_creates_nothing(tmp_path):
    assert find_owner(tmp_path / "state", "s1") is None
    assert not (tmp_path / "state").exists()


def test_a_second_owner_is_refused_with_the_name_of_the_first(tmp_path, holder):
    with pytest.raises(SessionOwnedError) as refused:
        take(tmp_path)
    assert f"owned by process {holder.pid} since 2023-11-14" in refused.value.message
    assert refused.value.hint == (
        "follow it: prsm attach s1; or end its run: prsm kill master --session s1"
    )
    assert (refused.value.code, refused.value.exit_code) == ("session_owned", 2)
    with take(tmp_path, "s2"):
        pass


def test_a_process_does_not_own_a_session_twice(tmp_path):
    with take(tmp_path), pytest.raises(SessionOwnedError, match=f"process {os.getpid()} "):
        take(tmp_path)


def test_a_released_session_is_free_and_leaves_no_file(tmp_path):
    lock = take(tmp_path)
    lock.owner.socket.touch()
    lock.release()
    lock.release()
    assert find_owner(tmp_path, "s1") is None
    assert list((tmp_path / "runs").iterdir()) == []
    take(tmp_path).release()


def test_the_lock_of_a_killed_owner_is_taken_over(tmp_path, holder):
    assert owner_of(tmp_path).process.pid == holder.pid
    holder.send_signal(signal.SIGKILL)
    holder.wait(DEADLINE)
    assert (tmp_path / "runs" / "s1.lock").exists(), "nobody was left to remove it"
    assert find_owner(tmp_path, "s1") is None
    with take(tmp_path):
        assert owner_of(tmp_path).process.pid == os.getpid()


@pytest.mark.parametrize("left", [b"", b"{", b"[1]", b'{"pid": "x"}', b"\xff" * 9000])
def test_what_a_lock_file_held_before_does_not_matter(tmp_path, left):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "s1.lock").write_bytes(left)
    assert find_owner(tmp_path, "s1") is None
    with take(tmp_path) as lock:
        assert find_owner(tmp_path, "s1") == lock.owner


def test_an_owner_that_does_not_say_who_it_is_still_owns(tmp_path):
    with take(tmp_path):
        (tmp_path / "runs" / "s1.lock").write_bytes(b"")
        with pytest.raises(ControlError, match="does not say who it is") as unknown:
            find_owner(tmp_path, "s1")
        assert unknown.value.code == "unknown_owner"
        with pytest.raises(SessionOwnedError, match="owned by another process"):
            take(tmp_path)


def test_one_owner_at_a_time_however_many_try_and_look(tmp_path, start_worker):
    racers = [start_worker("race", tmp_path, "s1", tmp_path / "marker", 40) for _ in range(3)]
    while any(racer.poll() is None for racer in racers):
        try:
            owner = find_owner(tmp_path, "s1")
        except ControlError as error:  # all of them were stopped just before they wrote
            pytest.fail(error.message)
        assert owner is None or owner.process.pid in {racer.pid for racer in racers}
    assert [racer.wait(DEADLINE) for racer in racers] == [0, 0, 0]
    assert find_owner(tmp_path, "s1") is None


def test_a_lock_that_was_removed_by_hand_takes_nothing_of_its_successor_with_it(tmp_path):
    first = take(tmp_path)
    (tmp_path / "runs" / "s1.lock").unlink()
    with take(tmp_path) as second:
        first.release()
        assert find_owner(tmp_path, "s1") == second.owner


def test_locks_are_for_their_owner_only(tmp_path):
    (tmp_path / "runs").mkdir(mode=0o755)
    with take(tmp_path):
        assert stat.S_IMODE((tmp_path / "runs").stat().st_mode) == 0o700
        assert stat.S_IMODE((tmp_path / "runs" / "s1.lock").stat().st_mode) == 0o600


@pytest.mark.parametrize("name", ["", ".", "../s1", "a/b", "-x", "a\0b", "s 1", "é", "x" * 65])
def test_a_session_whose_name_could_lead_elsewhere_is_refused(tmp_path, name):
    with pytest.raises(ConfigError, match="is no name"):
        take(tmp_path, name)
    assert find_owner(tmp_path, name) is None


def test_a_lock_is_not_followed_to_another_file(tmp_path):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "s1.lock").symlink_to(tmp_path / "precious")
    (tmp_path / "precious").write_text("kept")
    with pytest.raises(ConfigError, match="cannot be locked"):
        take(tmp_path)
    assert (tmp_path / "precious").read_text() == "kept"
