"""Finds what texts of a ledger cite, in whatever table and column they stand."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from typing import TYPE_CHECKING

from prsm_core.store.connection import LedgerLock, open_reader, to_store_error
from prsm_core.store.limits import StoreLimits
from prsm_core.store.session_rows import SHARED, TABLES

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator
    from pathlib import Path


def cited_in(
    path: Path, begins: str, cited: re.Pattern[str], session_id: str | None = None
) -> frozenset[str]:
    """Return what `cited` finds in the ledger at `path`, in the rows of a session or in all.

    Only texts that hold `begins` are looked at; nothing that JSON escapes may be in either.
    Raises StoreError where the ledger cannot be read.
    """
    try:
        with (
            LedgerLock(path, threading.Event(), StoreLimits().lock_timeout_s) as lock,
            closing(open_reader(path, lock)) as conn,
        ):
            return frozenset(
                match[0]
                for text in _texts(conn, begins, session_id)
                for match in cited.finditer(text)
            )
    except (sqlite3.Error, OSError) as error:
        raise to_store_error(error, f"the ledger {path} cannot be read") from error


def _texts(conn: sqlite3.Connection, begins: str, session_id: str | None) -> Iterator[str]:
    wanted = {"begins": begins, "session": session_id}
    for table, of_session in TABLES.items():
        if table in SHARED:
            continue
        where = "1" if session_id is None else of_session
        for column in conn.execute(f"PRAGMA table_info({table})").fetchall():
            name = f'"{column["name"]}"'
            sql = (
                f"SELECT {name} FROM {table} WHERE typeof({name}) = 'text'"  # noqa: S608 - names of ours
                f" AND instr({name}, :begins) AND {where}"
            )
            yield from (text for (text,) in conn.execute(sql, wanted))
