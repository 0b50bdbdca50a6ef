"""Gives the disk space of what was deleted from a ledger back to the file system.

SQLite keeps the pages of deleted rows in the file, for rows to come. Compaction writes the file
anew without them, in one transaction: a kill or a full disk leaves the ledger as it was.
"""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from typing import TYPE_CHECKING

from prsm_core.domain.record import Record
from prsm_core.errors import StoreError
from prsm_core.store.connection import (
    LedgerLock,
    open_reader,
    open_writer,
    require_file,
    to_store_error,
)
from prsm_core.store.limits import StoreLimits

if TYPE_CHECKING:
    from pathlib import Path

_MIN_BYTES = 4 * 1024 * 1024  # less is not worth the time that it takes to write the file anew
_MIN_SHARE = 0.25  # of the file


class Space(Record, frozen=True, kw_only=True):
    """How much of a ledger's file is in use, in bytes."""

    size: int
    free: int  # in pages without a row

    @property
    def is_worth_it(self) -> bool:
        """Whether a deletion is to compact the file."""
        return self.free >= _MIN_BYTES and self.free >= _MIN_SHARE * self.size


def measure(path: Path) -> Space:
    """Return how much of the ledger at `path` is in use. Raises StoreError."""
    require_file(path)
    try:
        with (
            LedgerLock(path, threading.Event(), StoreLimits().lock_timeout_s) as lock,
            closing(open_reader(path, lock)) as conn,
        ):
            return _measure(conn)
    except (sqlite3.Error, OSError) as error:
        raise to_store_error(error, f"the ledger {path} cannot be read") from error


def compact(path: Path, limits: StoreLimits | None = None) -> tuple[Space, Space]:
    """Write the ledger at `path` anew without its free pages; return it as before and as after.

    The caller sees to it that no engine uses the ledger: whoever writes meanwhile waits.

    Raises:
        StoreError: there is no ledger, another process reads it (code `locked`), or it cannot be
            written, as on a full disk. Then it is as it was.
    """
    require_file(path)
    wait_s = (limits or StoreLimits()).lock_timeout_s
    try:
        with LedgerLock(path, threading.Event(), wait_s) as lock:
            conn = open_writer(path, lock)
            with lock.held(), closing(conn):
                before = _measure(conn)
                # What SQLite writes aside holds all of the ledger: in its own folder, which is
                # private, and not in memory, which may be less.
                conn.execute("PRAGMA temp_store = FILE")
                conn.execute(f"PRAGMA temp_store_directory = '{_quoted(path.parent)}'")
                try:
                    conn.execute("VACUUM")
                finally:
                    conn.execute("PRAGMA temp_store_directory = ''")
                (is_busy, *_) = conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                if is_busy:
                    raise StoreError(
                        f"another process reads the ledger {path}: its space is given back later",
                        hint="try again when that has ended: prsm sessions compact",
                        code="locked",
                    )
                return before, _measure(conn)
    except (sqlite3.Error, OSError) as error:
        raise to_store_error(error, f"the ledger {path} is not compacted") from error


def _measure(conn: sqlite3.Connection) -> Space:
    pragmas = ("page_size", "page_count", "freelist_count")
    page, count, free = (conn.execute(f"PRAGMA {name}").fetchone()[0] for name in pragmas)
    return Space(size=page * count, free=page * free)


def _quoted(folder: Path) -> str:
    return str(folder).replace("'", "''")
