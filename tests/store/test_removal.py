"""A session is taken out whole: every table is known to it, and others keep what they share."""

import sqlite3
from contextlib import closing

import pytest
from prsm_testing.steps import Steps

from prsm_core.errors import StoreError
from prsm_core.store import SqliteStore
from prsm_core.store.removal import remove_session
from prsm_core.store.session_rows import SHARED, TABLES
from tests.store.dumps import dump, query


def test_it_is_told_of_every_table_which_rows_are_a_sessions(path, store):
    tables = query(path, "SELECT name FROM sqlite_master WHERE type = 'table'")
    assert set(TABLES) == {name for (name,) in tables}
    assert set(TABLES) >= SHARED


async def record(path, session, parent=None):
    steps = Steps(session)
    async with await SqliteStore.open(path) as store:
        await store.commit(steps.run_started())
        await store.commit(steps.spawn("master"))
        turn = steps.turn("master", parent_turn_id=parent)
        await store.commit(steps.step("master", turn))
        await store.commit(steps.close_turn(turn, "master"))
    return turn.turn_id


async def test_what_others_go_on_from_is_not_taken_away(path, store):
    await store.aclose()
    shared = await record(path, "first")
    await record(path, "second", parent=shared)
    before = dump_all(path)
    with pytest.raises(StoreError) as refused:
        remove_session(path, "first")
    assert (refused.value.code, "second" in refused.value.message) == ("has_forks", True)
    assert dump_all(path) == before
    remove_session(path, "second")
    remove_session(path, "first")
    assert {name: count for name, count in counted(path).items() if count} == {}


async def test_what_fails_in_the_midst_deletes_nothing(path, store):
    await store.aclose()
    await record(path, "first")
    with closing(sqlite3.connect(path)) as conn:  # the last of all to be deleted
        fails = "BEGIN SELECT raise(ABORT, 'the disk is full'); END"
        conn.execute(f"CREATE TRIGGER full BEFORE DELETE ON meta {fails}")
    before = dump_all(path)
    with pytest.raises(StoreError, match="the disk is full"):
        remove_session(path, "first")
    assert dump_all(path) == before


def test_a_ledger_that_is_not_there_is_not_made(tmp_path):
    with pytest.raises(StoreError, match="no ledger"):
        remove_session(tmp_path / "none.db", "s1")
    assert list(tmp_path.iterdir()) == []


def counted(path):
    return {name: len(found) for name, found in dump(path).items()}


def dump_all(path):
    with closing(sqlite3.connect(path)) as conn:
        return list(conn.iterdump())
