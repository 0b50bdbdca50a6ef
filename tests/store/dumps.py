"""Looking at a ledger file with plain SQL, beside the store."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a ledger for queries only; close it at the end."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as conn:
        conn.execute("PRAGMA wal_autocheckpoint = 0")
        yield conn


def query(path: Path, sql: str, *values: object) -> list[tuple]:
    """Return the rows of a query."""
    with reading(path) as conn:
        return conn.execute(sql, values).fetchall()


def ancestry(path: Path, turn_id: str) -> list[str]:
    """Return the turns from the root of a thread to one of its turns."""
    ((found,),) = query(path, "SELECT ancestry FROM thread_ancestry WHERE turn_id = ?", turn_id)
    turns: list[str] = json.loads(found)
    return turns


def size(path: Path) -> int:
    """Return the size of the file itself, without its write-ahead log."""
    return path.stat().st_size


def dump(path: Path) -> dict[str, list[tuple]]:
    """Return all rows of all tables, by table."""
    tables = query(path, "SELECT name FROM sqlite_master WHERE type = 'table'")
    return {name: query(path, f'SELECT * FROM "{name}"') for (name,) in tables}  # noqa: S608 - names from the schema
