from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from prsm_core.errors import StoreError
from prsm_core.store import SqliteStore
from prsm_core.store.migrations import APPLICATION_ID, load_migrations, migrate
from prsm_core.testing.steps import Steps
from tests.store.dumps import dump, query

NEWEST = len(load_migrations())
RELEASED = {
    file.stem: file.read_text(encoding="utf-8")
    for file in sorted((Path(__file__).parent / "ledgers").glob("version*.sql"))
}
NEWEST_RELEASED = list(RELEASED.values())[-1]


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


def upgraded(path: Path) -> None:
    """Make the newest ledger that was released, and bring it to the newest version there is."""
    write(path, NEWEST_RELEASED)
    with closing(sqlite3.connect(path, isolation_level=None)) as conn:
        migrate(conn)


def schema(path: Path) -> list[tuple]:
    return query(path, "SELECT type, name, sql FROM sqlite_master ORDER BY type, name")


async def test_a_new_ledger_has_the_newest_version_and_is_private(path: Path, store: SqliteStore):
    assert query(path, "PRAGMA user_version") == [(NEWEST,)]
    assert query(path, "PRAGMA application_id") == [(APPLICATION_ID,)]
    assert mode(path) == 0o600


async def test_an_empty_file_becomes_a_ledger(empty: Path):
    async with await SqliteStore.open(empty):
        assert query(empty, "PRAGMA user_version") == [(NEWEST,)]


@pytest.mark.parametrize("script", RELEASED.values(), ids=RELEASED)
async def test_a_ledger_of_every_released_version_opens_with_its_content(
    script: str, path: Path, tmp_path: Path
):
    write(path, script)
    async with await SqliteStore.open(path) as store:
        events = [event.type async for event in store.events("s1")]
        master, worker = await store.agents("s1")
        (call,) = await store.calls(worker.descriptor.agent_id)
        (request,) = await store.open_requests("s1")
        (message,) = await store.inbox("s1")
        assert events == ["notice", "notice"]
        assert (master.descriptor.name, worker.usage.total_tokens) == ("master", 15)
        assert (call["id"], request.kind, message.target) == (
            "c1",
            "permission",
            master.descriptor.agent_id,
        )
        assert await store.ancestry(worker.head_turn_id or "") == [worker.head_turn_id]
    async with await SqliteStore.open(tmp_path / "new.db"):
        assert schema(path) == schema(tmp_path / "new.db")


@pytest.mark.parametrize("script", RELEASED.values(), ids=RELEASED)
async def test_a_session_of_every_released_version_can_be_gone_on_with(script: str, path: Path):
    """As it is, but not as it was: its commits had no numbers."""
    # Turns are told apart from those of older runs by time; this run was timed by another clock.
    write(path, script)
    write(path, "UPDATE runs SET started_at = 1000.0")
    team = Steps()
    async with await SqliteStore.open(path) as store:
        state = await store.state("s1")
        _, worker = state.agents
        assert worker.last_turn is not None
        assert worker.head_turn_id == worker.last_turn.turn_id
        assert (state.position, worker.turns) == (0, 1)
        assert worker.spent is not None
        assert worker.spent.usage.total_tokens == 15
        assert [message.target for message in state.unread] == [team.agent("master")]
        assert len(state.requests) == 1
        assert await store.state("s1", 0) == state
        await store.append([team.event()])
        assert (await store.state("s1")).position == 1
        with pytest.raises(StoreError) as caught:
            await store.state("s1", 0)
        assert caught.value.code == "unknown_position"


def test_a_migration_keeps_the_rows_and_is_done_once(path: Path):
    upgraded(path)
    before = dump(path)
    scripts = [*load_migrations(), "ALTER TABLE runs ADD COLUMN host TEXT DEFAULT 'here'"]
    with closing(sqlite3.connect(path, isolation_level=None)) as conn:
        migrate(conn, scripts)
        migrate(conn, scripts)
    after = dump(path)
    assert query(path, "PRAGMA user_version") == [(NEWEST + 1,)]
    assert [row[:-1] for row in after.pop("runs")] == before.pop("runs")
    assert after == before


def test_a_failed_migration_leaves_the_old_version(path: Path):
    upgraded(path)
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


async def test_reading_an_older_ledger_asks_for_an_upgrade(path: Path):
    write(path, NEWEST_RELEASED)
    write(path, "PRAGMA user_version = 1")
    with pytest.raises(StoreError) as caught:
        await SqliteStore.open(path, read_only=True)
    assert caught.value.code == "older_ledger"


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


def decided_in_version_5(path: Path) -> None:
    """Make a ledger of version 5: two sessions, in one of them a change that was decided about."""
    with closing(sqlite3.connect(path, isolation_level=None)) as conn:
        migrate(conn, load_migrations()[:5])
    with closing(sqlite3.connect(path)) as conn:
        for number, session in enumerate(("s2", "s1"), 1):
            conn.execute(
                "INSERT INTO meta (session_id, task, workspace, created_at)"
                " VALUES (?, 't', '/w', 1)",
                (session,),
            )
            conn.execute(
                "INSERT INTO runs (run_id, session_id, task, workspace, status, started_at, began)"
                " VALUES (?, ?, 't', '/w', 'completed', 1, 1)",
                (f"r{number}", session),
            )
        for position, decided in enumerate(((), ("accepted", "unmerged"), ("rejected",)), 1):
            told = [
                {"change": "f1", "path": "a", "state": one, "why": f"{one}!"} for one in decided
            ]
            kind, data = ("changes_decided", {"changes": told}) if told else ("notice", {})
            conn.execute(
                "INSERT INTO steps VALUES (?, ?, 's1', 'k', ?, 1)",
                (position, f"x{position}", position),
            )
            conn.execute(
                "INSERT INTO events VALUES ('s1', ?, ?, 'r2', NULL, ?, ?, ?)",
                (position, float(position), kind, json.dumps(data), position),
            )
        conn.execute(
            "INSERT INTO file_changes VALUES ('s1', 'f1', 's', 'a', '', '/w', 'added', NULL, NULL,"
            " NULL, NULL, 1, 0, 'outside', NULL, NULL, NULL, '[]', '[]', '', 1.0, 'rejected',"
            " 'rejected!', 3.0, 1)"
        )
        conn.commit()


async def test_what_was_decided_about_changes_before_version_6_is_known_as_it_was(path: Path):
    """Of the events that told it; and sessions come in the order that they had."""
    decided_in_version_5(path)
    seen = []
    async with await SqliteStore.open(path) as store:
        for position in (1, 2, 3):
            (row,) = (await store.state("s1", position)).changes
            seen.append((row.state, row.why, row.decided_at))
        assert seen == [
            ("pending", None, None),
            ("unmerged", "unmerged!", 2.0),
            ("rejected", "rejected!", 3.0),
        ]
        assert [info.session_id for info in await store.sessions()] == ["s1", "s2"]
        await store.commit(Steps("s3").run_started())
        assert [info.session_id for info in await store.sessions()] == ["s3", "s1", "s2"]
