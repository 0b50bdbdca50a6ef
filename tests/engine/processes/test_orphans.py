"""What a dead engine left behind is ended by the next one, and nothing else is."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from prsm_core.engine.processes.launcher import ProcessLauncher
from prsm_core.engine.processes.table import (
    Orphans,
    ProcessIdentity,
    ProcessRecord,
    _is_subreaper,
    end_orphans,
    find_family,
    find_orphans,
    is_alive,
    process_identity,
    recorded_processes,
)
from prsm_core.kit.clocks import SystemClock


def identity_of(pid) -> ProcessIdentity:
    """Return the identity of a process that lives."""
    identity = process_identity(pid)
    assert identity is not None
    return identity


@pytest.fixture
def sleeper():
    """Return a process in a session of its own, as every shim is."""
    process = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    yield process
    process.kill()
    process.wait()


def write_record(state, *identities):
    """Write a record as an engine would have left it."""
    folder = state / "runs"
    folder.mkdir(exist_ok=True)
    lines = [json.dumps([i.pid, i.start_time, i.boot_id]) for i in identities]
    (folder / "1-1-aaaa.processes").write_text("\n".join(lines) + "\n")


def dead_process():
    """Return the identity of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    identity = identity_of(process.pid)
    process.communicate()
    return identity


def test_the_processes_of_a_dead_engine_are_ended(tmp_path, sleeper):
    write_record(tmp_path, dead_process(), identity_of(sleeper.pid))
    assert end_orphans(tmp_path) == 1
    assert sleeper.wait() == -signal.SIGKILL
    assert list((tmp_path / "runs").iterdir()) == []


def test_the_processes_of_a_living_engine_are_left_alone(tmp_path, sleeper):
    own = identity_of(os.getpid())
    write_record(tmp_path, own, identity_of(sleeper.pid))
    assert end_orphans(tmp_path) == 0
    assert is_alive(identity_of(sleeper.pid))


def test_a_process_that_has_the_pid_of_an_old_one_is_left_alone(tmp_path, sleeper):
    now = identity_of(sleeper.pid)
    older = ProcessIdentity(pid=now.pid, start_time=now.start_time - 1, boot_id=now.boot_id)
    write_record(tmp_path, dead_process(), older)
    assert end_orphans(tmp_path) == 0
    assert is_alive(now)


def test_a_record_of_another_boot_is_forgotten(tmp_path, sleeper):
    now = identity_of(sleeper.pid)
    other = ProcessIdentity(pid=now.pid, start_time=now.start_time, boot_id="before")
    write_record(tmp_path, other, other)
    assert end_orphans(tmp_path) == 0
    assert is_alive(now)
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_line_that_was_cut_off_does_not_hide_the_others(tmp_path, sleeper):
    write_record(tmp_path, dead_process(), identity_of(sleeper.pid))
    (record,) = (tmp_path / "runs").iterdir()
    with record.open("a") as file:
        file.write('[12, "')
    assert end_orphans(tmp_path) == 1


def test_a_record_lives_as_long_as_its_engine(tmp_path):
    with recorded_processes(tmp_path) as record:
        assert isinstance(record, ProcessRecord)
        (path,) = (tmp_path / "runs").iterdir()
        assert path.stat().st_mode & 0o777 == 0o600
    assert list((tmp_path / "runs").iterdir()) == []


def test_orphans_are_found_without_being_touched(tmp_path, sleeper):
    engine = dead_process()
    write_record(tmp_path, engine, identity_of(sleeper.pid))
    before = [(p.name, p.read_bytes()) for p in (tmp_path / "runs").iterdir()]
    assert find_orphans(tmp_path) == [Orphans(engine=engine.pid, pids=(sleeper.pid,))]
    assert [(p.name, p.read_bytes()) for p in (tmp_path / "runs").iterdir()] == before
    assert is_alive(identity_of(sleeper.pid))


def test_what_a_shim_that_was_killed_too_left_behind_is_found(tmp_path):
    lead = "import subprocess; subprocess.Popen(['sleep', '1000']); input()"
    shim = subprocess.Popen(
        [sys.executable, "-c", lead], stdin=subprocess.PIPE, start_new_session=True
    )
    identity = identity_of(shim.pid)
    deadline = time.monotonic() + 60
    while len(find_family(shim.pid)) < 2:
        assert time.monotonic() < deadline
    (member,) = set(find_family(shim.pid)) - {shim.pid}
    shim.kill()
    shim.communicate()
    write_record(tmp_path, dead_process(), identity)
    [found] = find_orphans(tmp_path)
    assert found.pids == (member,)
    end_orphans(tmp_path)
    assert find_orphans(tmp_path) == []


def test_a_living_engine_has_no_orphans(tmp_path, sleeper):
    write_record(tmp_path, identity_of(os.getpid()), identity_of(sleeper.pid))
    assert find_orphans(tmp_path) == []
    assert find_orphans(tmp_path / "nowhere") == []


def test_a_family_whose_members_come_and_go_can_be_looked_at():
    script = "while :; do for n in 1 2 3; do (true & true) & done; wait; done"
    process = subprocess.Popen(["bash", "-c", script], start_new_session=True)
    try:
        deadline = time.monotonic() + 60
        while len(find_family(process.pid)) < 2:  # it begins
            assert time.monotonic() < deadline, "it never had children"
        for _ in range(300):
            assert process.pid in find_family(process.pid)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


async def test_the_first_of_two_launchers_that_closes_leaves_the_other_its_orphans():
    """Two sessions of one process: neither takes from the other what tells it of orphans."""
    first, second = ProcessLauncher(SystemClock()), ProcessLauncher(SystemClock())
    before = _is_subreaper()
    await first.__aenter__()
    async with second:
        await first.__aexit__(None, None, None)
        assert _is_subreaper()
        assert asyncio.get_running_loop().remove_signal_handler(signal.SIGCHLD)
    assert _is_subreaper() == before
