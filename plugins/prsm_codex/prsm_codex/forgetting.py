"""Takes threads out of the databases that Codex keeps beside their files."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from prsm_codex.app_server import HOME
from prsm_core import PrsmError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

_COLUMNS = frozenset({"thread_id", "parent_thread_id", "child_thread_id"})  # as far as is known


def forget(state_dir: Path, names: Collection[str], busy_s: float = 5.0) -> None:
    """Delete the rows of threads of these names; raise PrsmError if that is not possible.

    A Codex of another session has `busy_s` to end a transaction that is in the way. The tables are
    those of Codex 0.169, and any other that names a thread as they do.
    """
    for file in sorted((state_dir / HOME).glob("*.sqlite")):
        try:
            with closing(sqlite3.connect(file, timeout=busy_s)) as database:
                database.execute("PRAGMA secure_delete = ON")
                with database:
                    for table, column in _places(database):
                        sql = f'DELETE FROM "{table}" WHERE "{column}" = ?'  # noqa: S608 - of its schema
                        database.executemany(sql, [(name,) for name in names])
                database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except sqlite3.Error as error:
            raise PrsmError(
                f"codex: threads cannot be taken out of {file}: {error}",
                hint="end what uses it: the next `prsm sessions` command tries again",
            ) from error


def _places(database: sqlite3.Connection) -> Iterator[tuple[str, str]]:
    tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    for (table,) in tables:
        columns = {row[1] for row in database.execute(f'PRAGMA table_info("{table}")')}
        yield from ((table, column) for column in sorted(columns & _COLUMNS))
        if table == "threads" and "id" in columns:
            yield table, "id"
