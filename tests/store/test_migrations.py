from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from prsm_testing.steps import Steps

from prsm_core.errors import StoreError
from prsm_core.store import SqliteStore
from prsm_core.store.migrations import (
    APPLICATION_ID,
    NEWEST,
    load_migrations,
    migrate,
    require_current,
)
from prsm_core.store.removal import remove_session
from tests.store.dumps import dump, query

# The header of ledgers from before version 1 of the schema.
EARLIER = "PRAGMA application_id = 0x5052534D; PRAGMA user_version = 9"


@pytest.fixture
def empty(path: Path) -> Path:
    path.touch(mode=0o644)
    return path


def content(path: Path) -> bytes:
    return path.read_bytes()


def note(folder: Path) -> Path:
    path = folder / "note.txt"
    path.write_text("not a database, only a text of some length" * 10)
    return path


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def write(path: Path, script: str) -> None:
    with closing(sqlite3.connect(path)) as conn:
        conn.executescript(script)


async def fill(path: Path) -> None:
    team = Steps()
    async with await SqliteStore.open(path) as store:
        await store.commit(team.run_started())
        await store.commit(team.spawn("master"))


async def fill_earlier(path: Path) -> None:
    """Make what a ledger of an earlier PRSM is to this one."""
    await fill(path)
    write(path, EARLIER)


def schema(path: Path) -> list[tuple]:
    return query(path, "SELECT type, name, sql FROM sqlite_master ORDER BY type, name")


async def test_a_new_ledger_has_the_newest_version_and_is_private(path: Path, store: SqliteStore):
    assert query(path, "PRAGMA user_version") == [(NEWEST,)]
    assert query(path, "PRAGMA application_id") == [(APPLICATION_ID,)]
    assert mode(path) == 0o600


async def test_an_empty_file_becomes_a_ledger(empty: Path):
    async with await SqliteStore.open(empty):
        assert query(empty, "PRAGMA user_version") == [(NEWEST,)]


async def test_a_migration_keeps_the_rows_and_is_done_once(path: Path):
    await fill(path)
    before = dump(path)
    scripts = [*load_migrations(), "ALTER TABLE runs ADD COLUMN host TEXT DEFAULT 'here'"]
    with closing(sqlite3.connect(path, isolation_level=None)) as conn:
        migrate(conn, scripts)
        migrate(conn, scripts)
    after = dump(path)
    assert query(path, "PRAGMA user_version") == [(NEWEST + 1,)]
    assert [row[:-1] for row in after.pop("runs")] == before.pop("runs")
    assert after == before


async def test_a_failed_migration_leaves_the_old_version(path: Path):
    await fill(path)
    before = dump(path), schema(path)
    scripts = [*load_migrations(), "DROP TABLE grants; INSERT INTO nothing VALUES (1)"]
    with (
        closing(sqlite3.connect(path, isolation_level=None)) as conn,
        pytest.raises(sqlite3.OperationalError, match="nothing"),
    ):
        migrate(conn, scripts)
    assert (dump(path), schema(path)) == before
    assert query(path, "PRAGMA user_version") == [(NEWEST,)]


@pytest.mark.parametrize("read_only", [False, True])
async def test_a_newer_ledger_is_refused(path: Path, read_only: bool):
    async with await SqliteStore.open(path):
        pass
    write(path, f"PRAGMA user_version = {NEWEST + 1}")
    with pytest.raises(StoreError) as caught:
        await SqliteStore.open(path, read_only=read_only)
    assert caught.value.code == "newer_ledger"
    assert "Upgrade" in (caught.value.hint or "")
    assert query(path, "PRAGMA user_version") == [(NEWEST + 1,)]


@pytest.mark.parametrize("read_only", [False, True])
async def test_a_foreign_database_is_refused_and_not_touched(path: Path, read_only: bool):
    write(path, "CREATE TABLE mine (x)")
    before = content(path)
    with pytest.raises(StoreError) as caught:
        await SqliteStore.open(path, read_only=read_only)
    assert caught.value.code == "not_a_ledger"
    assert content(path) == before


@pytest.mark.parametrize("read_only", [False, True])
async def test_a_file_that_is_no_database_is_refused(tmp_path: Path, read_only: bool):
    with pytest.raises(StoreError, match="not a database"):
        await SqliteStore.open(note(tmp_path), read_only=read_only)


async def test_reading_a_missing_ledger_says_what_to_do(path: Path):
    with pytest.raises(StoreError) as caught:
        await SqliteStore.open(path, read_only=True)
    assert caught.value.code == "no_ledger"
    assert caught.value.hint
    assert list(path.parent.iterdir()) == []


async def test_reading_a_ledger_of_an_older_version_asks_for_an_upgrade(path: Path):
    await fill(path)
    with closing(sqlite3.connect(path)) as conn, pytest.raises(StoreError) as caught:
        require_current(conn, NEWEST + 1)
    assert caught.value.code == "older_ledger"
    assert "any run" in (caught.value.hint or "")


async def test_reading_a_ledger_of_an_earlier_prsm_is_refused_and_leaves_it(path: Path):
    await fill_earlier(path)
    before = content(path)
    with pytest.raises(StoreError, match="was written by an earlier PRSM") as caught:
        await SqliteStore.open(path, read_only=True)
    assert caught.value.code == "older_ledger"
    assert "prsm run" in (caught.value.hint or "")
    assert content(path) == before


@pytest.mark.parametrize("late", [False, True])
async def test_writing_keeps_a_ledger_of_an_earlier_prsm_beside_the_new_one(
    path: Path, late: bool, caplog: pytest.LogCaptureFixture
):
    await fill_earlier(path)
    before = dump(path)
    other = path.with_name("ledger.db.old-1")
    other.write_text("taken")
    async with await SqliteStore.open(path, late=late) as store:
        assert not await store.sessions()
        await store.commit(Steps("s2").run_started())
    assert query(path, "PRAGMA user_version") == [(NEWEST,)]
    kept = path.with_name("ledger.db.old-2")
    assert dump(kept) == before
    assert other.read_text() == "taken"
    assert f"kept as {kept}, and a new one begins" in caplog.text


async def test_what_a_killed_engine_left_in_the_log_of_an_earlier_ledger_is_kept(path: Path):
    await fill_earlier(path)
    left = path.with_name("left")
    left.mkdir()
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("PRAGMA wal_autocheckpoint = 0")
        conn.execute("UPDATE meta SET name = 'in the log'")
        conn.commit()
        for file in path.parent.glob("ledger.db*"):
            shutil.copy(file, left)
    assert (left / "ledger.db-wal").stat().st_size
    async with await SqliteStore.open(left / "ledger.db"):
        pass
    assert query(left / "ledger.db.old-1", "SELECT name FROM meta") == [("in the log",)]


async def test_an_earlier_ledger_that_a_process_has_open_stays_where_it_is(path: Path):
    await fill_earlier(path)
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("SELECT * FROM meta").fetchall()
        with pytest.raises(StoreError) as caught:
            await SqliteStore.open(path)
        assert (caught.value.code, "fuser" in (caught.value.hint or "")) == ("locked", True)
        conn.execute("UPDATE meta SET name = 'still there'")
        conn.commit()
    assert query(path, "SELECT name FROM meta") == [("still there",)]
    assert not list(path.parent.glob("*.old-*"))


async def test_a_removal_does_not_begin_a_new_ledger_in_place_of_an_earlier_one(path: Path):
    await fill_earlier(path)
    with pytest.raises(StoreError) as caught:
        remove_session(path, "s1")
    assert caught.value.code == "older_ledger"
    assert not list(path.parent.glob("*.old-*"))


def header_only(path: Path) -> None:
    """Leave what an engine leaves that dies before the schema is written."""
    write(path, "PRAGMA journal_mode = WAL")


@pytest.mark.requirement("N24")
@pytest.mark.parametrize("make", [Path.touch, header_only])
async def test_a_ledger_that_was_never_begun_is_none(path: Path, make):
    make(path)
    before = content(path)
    with pytest.raises(StoreError) as caught:
        await SqliteStore.open(path, read_only=True)
    assert caught.value.code == "no_ledger"
    assert content(path) == before
    async with await SqliteStore.open(path, late=True) as store:
        assert not await store.sessions()
        await store.commit(Steps().run_started())
    assert query(path, "PRAGMA user_version") == [(NEWEST,)]


@pytest.mark.requirement("N24")
def test_a_new_ledger_gets_its_whole_schema_or_nothing(path: Path):
    scripts = [*load_migrations(), "INSERT INTO nothing VALUES (1)"]
    with (
        closing(sqlite3.connect(path, isolation_level=None)) as conn,
        pytest.raises(sqlite3.OperationalError, match="nothing"),
    ):
        migrate(conn, scripts)
    assert schema(path) == []
    assert query(path, "PRAGMA user_version") == [(0,)]


async def test_a_reader_cannot_write(path: Path, store: SqliteStore, team: Steps):
    async with await SqliteStore.open(path, read_only=True) as reader:
        assert len(await reader.agents("s1")) == 3
        with pytest.raises(StoreError) as caught:
            await reader.append([team.event()])
        assert caught.value.code == "read_only"
