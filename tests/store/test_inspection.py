"""A look at a ledger finds what is wrong with it and leaves no trace."""

import asyncio
import shutil
import sqlite3

import pytest
from prsm_testing.store_contract import Steps

from prsm_core.errors import StoreError
from prsm_core.store import SqliteStore
from prsm_core.store.inspection import inspect_ledger


def files(folder):
    """Return names, times and content of all files but the index, which every reader writes to."""
    return {
        path.name: (path.stat().st_mtime_ns, path.read_bytes())
        for path in folder.iterdir()
        if not path.name.endswith("-shm")
    }


async def fill(store):
    steps = Steps("s1")
    await store.commit(steps.run_started())
    await store.commit(steps.spawn("master"))


@pytest.fixture
def ledger(tmp_path):
    """A ledger that was closed in order."""
    path = tmp_path / "closed" / "ledger.db"

    async def make():
        async with await SqliteStore.open(path) as store:
            await fill(store)

    asyncio.run(make())
    return path


@pytest.fixture
def abandoned(tmp_path):
    """The files that a ledger has while it is open, as a killed engine leaves them."""
    path, copy = tmp_path / "open" / "ledger.db", tmp_path / "abandoned"

    async def make():
        async with await SqliteStore.open(path) as store:
            await fill(store)
            shutil.copytree(path.parent, copy)

    asyncio.run(make())
    return copy / "ledger.db"


def test_a_closed_ledger_is_intact_and_stays_as_it_is(ledger):
    before = files(ledger.parent)
    report = inspect_ledger(ledger)
    assert (report.version, report.problems, report.unchecked) == (report.newest, (), None)
    assert (report.size, report.wal_size) == (ledger.stat().st_size, 0)
    assert files(ledger.parent) == before


async def test_a_ledger_that_an_engine_has_open_is_checked_beside_it(tmp_path):
    path = tmp_path / "ledger.db"
    async with await SqliteStore.open(path) as store:
        await fill(store)
        before = files(tmp_path)
        report = await asyncio.to_thread(inspect_ledger, path)
        assert (report.problems, report.unchecked) == ((), None)
        assert report.wal_size > 0
        assert files(tmp_path) == before
        await store.commit(Steps("s2").run_started())


def test_what_a_killed_engine_left_is_checked_and_not_merged(abandoned):
    before = files(abandoned.parent)
    report = inspect_ledger(abandoned)
    assert (report.version, report.problems, report.unchecked) == (report.newest, (), None)
    assert report.wal_size > 0
    assert files(abandoned.parent) == before


def test_a_log_without_its_index_is_told_and_not_opened(abandoned):
    abandoned.with_name("ledger.db-shm").unlink()
    before = files(abandoned.parent)
    assert inspect_ledger(abandoned).unchecked == "its write-ahead log has no index"
    assert files(abandoned.parent) == before


def test_damage_is_found(ledger):
    conn = sqlite3.connect(ledger)
    (root,) = conn.execute("SELECT rootpage FROM sqlite_master WHERE name = 'agents'").fetchone()
    (size,) = conn.execute("PRAGMA page_size").fetchone()
    conn.close()
    with ledger.open("r+b") as file:
        file.seek((root - 1) * size)
        file.write(b"\xff" * 64)
    report = inspect_ledger(ledger)
    assert report.problems
    assert len(report.problems) <= 5


def test_a_check_that_takes_too_long_is_given_up(ledger):
    conn = sqlite3.connect(ledger)
    conn.execute("CREATE TABLE many (x TEXT)")
    conn.execute(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)"
        "INSERT INTO many SELECT i FROM n"
    )
    conn.commit()
    conn.close()
    for end in ("-wal", "-shm"):
        ledger.with_name(ledger.name + end).unlink(missing_ok=True)
    report = inspect_ledger(ledger, seconds=0)
    assert (report.problems, report.unchecked) == ((), "that takes more than 0 s")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda path: path.write_text("no ledger " * 1000), "file is not a database"),
        (lambda path: pragma(path, "application_id = 7"), "not a ledger of PRSM"),
        (lambda path: pragma(path, "user_version = 99"), "the ledger has version 99"),
        (lambda path: (path.unlink(), path.mkdir()), "cannot read the ledger"),
    ],
)
def test_what_cannot_be_a_ledger_is_refused(ledger, spoil, said):
    spoil(ledger)
    with pytest.raises(StoreError, match=said):
        inspect_ledger(ledger)


def pragma(path, text):
    conn = sqlite3.connect(path)
    conn.execute(f"PRAGMA {text}")
    conn.close()


def test_an_empty_file_has_version_0(tmp_path):
    path = tmp_path / "ledger.db"
    path.touch()
    assert inspect_ledger(path).version == 0
