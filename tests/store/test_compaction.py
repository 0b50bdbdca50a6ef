"""Compaction gives disk space back, and changes no row, whatever comes in between."""

import signal
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest
from prsm_testing.steps import Steps

from prsm_core.errors import StoreError
from prsm_core.store import SqliteStore
from prsm_core.store.removal import compact, measure, remove_session
from tests.store.dumps import dump, query, size

MUCH = 40  # events of 64 KiB
# Kills its process once SQLite has done so many steps of its virtual machine.
KILLED = """
import os, signal, sys
from pathlib import Path
from prsm_core.store import removal

opened = removal.open_writer

def doomed(path, lock):
    conn = opened(path, lock)
    conn.set_progress_handler(lambda: os.kill(os.getpid(), signal.SIGKILL), int(sys.argv[2]))
    return conn

removal.open_writer = doomed
removal.compact(Path(sys.argv[1]))
print("compacted")
"""


async def record(path, session, events=0):
    steps = Steps(session)
    async with await SqliteStore.open(path) as store:
        await store.commit(steps.run_started())
        await store.commit(steps.spawn("master"))
        await store.commit(steps.spawn("w1", "master"))
        text = "x" * 65_536
        await store.append([steps.event("w1", text) for _ in range(events)])


@pytest.fixture
async def half_empty(path):
    """A ledger most of which was deleted."""
    await record(path, "goes", MUCH)
    await record(path, "stays")
    remove_session(path, "goes")
    return path


@pytest.mark.requirement("U37")
async def test_it_gives_the_space_of_deleted_sessions_back(half_empty):
    before, rows = size(half_empty), dump(half_empty)
    was, now = compact(half_empty)
    assert (was.size, now.size) == (before, size(half_empty))
    assert now.size < before / 10
    assert now.free == 0
    assert dump(half_empty) == rows
    async with await SqliteStore.open(half_empty) as store:
        assert [row.descriptor.name for row in await store.agents("stays")] == ["master", "w1"]


@pytest.mark.parametrize("steps", [40, 120, 300])
def test_a_kill_in_the_midst_leaves_all_rows(half_empty, steps):
    rows = dump(half_empty)
    command = [sys.executable, "-c", KILLED, str(half_empty), str(steps)]
    done = subprocess.run(command, check=False, capture_output=True, timeout=60)
    assert done.returncode == -signal.SIGKILL, (done.stdout, done.stderr)
    assert dump(half_empty) == rows
    assert query(half_empty, "PRAGMA integrity_check") == [("ok",)]
    assert compact(half_empty)[1].free == 0
    assert dump(half_empty) == rows


async def test_where_somebody_reads_it_says_so_and_loses_nothing(half_empty):
    rows = dump(half_empty)
    with closing(sqlite3.connect(half_empty, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM agents").fetchone() == (2,)
        with pytest.raises(StoreError) as refused:
            compact(half_empty)
        assert refused.value.code == "locked"
        reader.execute("COMMIT")
    assert dump(half_empty) == rows
    compact(half_empty)
    assert measure(half_empty).free == 0


async def test_a_ledger_without_a_session_takes_next_to_nothing(path):
    await record(path, "goes", MUCH)
    full = size(path)
    remove_session(path, "goes")
    assert measure(path).free > full / 2
    assert compact(path)[1].size < full / 10


def test_a_ledger_that_is_not_there_is_not_made(tmp_path):
    for look in (compact, measure):
        with pytest.raises(StoreError) as refused:
            look(tmp_path / "none.db")
        assert refused.value.code == "no_ledger"
    assert list(tmp_path.iterdir()) == []
