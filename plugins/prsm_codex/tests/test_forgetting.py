"""Threads are taken out of the databases of a Codex home, and no others."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from prsm_codex.forgetting import forget

from prsm_core import PrsmError

OURS, OTHER = "0199aaaa-1111", "0199bbbb-2222"
SAID = "what nobody else shall know"
# As Codex 0.169 has them, as far as it matters here.
STATE = """
CREATE TABLE threads (id TEXT PRIMARY KEY, first_user_message TEXT);
CREATE TABLE thread_spawn_edges (parent_thread_id TEXT, child_thread_id TEXT);
CREATE TABLE thread_sections (id TEXT PRIMARY KEY, name TEXT);
"""
HISTORY = "CREATE TABLE thread_items (thread_id TEXT, item_json TEXT);"


@pytest.fixture
def home(tmp_path):
    home = tmp_path / "codex-home"
    home.mkdir()
    for name, schema in (("state_5", STATE), ("thread_history_1", HISTORY)):
        with closing(sqlite3.connect(home / f"{name}.sqlite")) as database:
            database.execute("PRAGMA journal_mode = WAL").fetchall()
            database.executescript(schema)
            for thread in (OURS, OTHER):
                text = f"{thread}: {SAID}"
                if name == "state_5":
                    database.execute("INSERT INTO threads VALUES (?, ?)", (thread, text))
                    database.execute("INSERT INTO thread_sections VALUES (?, 'b')", (thread,))
                    edge = "INSERT INTO thread_spawn_edges VALUES (?, ?)"
                    database.execute(edge, ("parent", thread))
                else:
                    database.execute("INSERT INTO thread_items VALUES (?, ?)", (thread, text))
            database.commit()
    return home


def test_the_rows_of_a_thread_go_and_those_of_others_stay(home, tmp_path):
    forget(tmp_path, [OURS, "a" * 32])
    with closing(sqlite3.connect(home / "state_5.sqlite")) as database:
        assert database.execute("SELECT id FROM threads").fetchall() == [(OTHER,)]
        edges = database.execute("SELECT child_thread_id FROM thread_spawn_edges").fetchall()
        assert edges == [(OTHER,)]
        assert len(database.execute("SELECT id FROM thread_sections").fetchall()) == 2
    files = b"".join(path.read_bytes() for path in home.iterdir())
    assert f"{OURS}: {SAID}".encode() not in files
    assert f"{OTHER}: {SAID}".encode() in files


def test_a_database_that_is_in_use_is_named(home, tmp_path):
    with closing(sqlite3.connect(home / "state_5.sqlite")) as database:
        database.execute("BEGIN IMMEDIATE")
        with pytest.raises(PrsmError, match=r"state_5\.sqlite: database is locked"):
            forget(tmp_path, [OURS], busy_s=0.0)


def test_without_a_home_there_is_nothing_to_forget(tmp_path):
    forget(tmp_path, [OURS])
    assert list(tmp_path.iterdir()) == []
