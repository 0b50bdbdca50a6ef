"""Looks at a ledger without changing anything, not even the files that SQLite keeps beside it.

A reader in WAL mode makes a missing -wal and -shm. So a ledger that nobody has open is read as
immutable, and the result is dropped if it did change.
"""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from typing import TYPE_CHECKING

from prsm_core.domain.record import Record
from prsm_core.store.connection import LedgerLock, open_unlocked, to_store_error
from prsm_core.store.migrations import NEWEST, check_version

if TYPE_CHECKING:
    from pathlib import Path

CHECK_SECONDS = 30.0
LOCK_SECONDS = 5.0
MAX_PROBLEMS = 5

_UNCHANGED = "ro&immutable=1"  # the mode of a file that nobody changes
_INSTRUCTIONS = 100_000  # of SQLite's machine, between two looks at the clock


class LedgerReport(Record, frozen=True, kw_only=True):
    """What was found."""

    version: int
    newest: int
    size: int  # bytes of the file
    wal_size: int  # and of its write-ahead log
    problems: tuple[str, ...] = ()  # what SQLite says is damaged
    unchecked: str | None = None  # why the content could not be checked to its end


def inspect_ledger(path: Path, *, seconds: float = CHECK_SECONDS) -> LedgerReport:
    """Check an existing ledger for about `seconds`. Raises StoreError for one it cannot read."""
    try:
        if _is_open(path):
            return _inspect_open(path, seconds)
        if _size(_beside(path, "-wal")):
            with closing(open_unlocked(path, _UNCHANGED, sqlite3.Connection)) as conn:
                version = check_version(conn)
            return _report(path, version, unchecked="its write-ahead log has no index")
        return _inspect_closed(path, seconds)
    except (sqlite3.Error, OSError) as error:
        raise to_store_error(error, f"cannot read the ledger {path}") from error


def _is_open(path: Path) -> bool:
    """Return whether engines have it open, or were killed while they had."""
    return all(_beside(path, end).exists() for end in ("-wal", "-shm", ".lock"))


def _inspect_open(path: Path, seconds: float) -> LedgerReport:
    with closing(LedgerLock(path, timeout_s=LOCK_SECONDS)) as lock:
        with lock:
            conn = open_unlocked(path, "ro", sqlite3.Connection)
            version = check_version(conn)
        try:
            return _report(path, version, *_check(conn, seconds))
        finally:
            with lock:
                conn.close()


def _inspect_closed(path: Path, seconds: float) -> LedgerReport:
    before = _stamp(path)
    try:
        with closing(open_unlocked(path, _UNCHANGED, sqlite3.Connection)) as conn:
            version = check_version(conn)
            found = _check(conn, seconds)
    except sqlite3.Error:
        if _stamp(path) == before:
            raise
        version, found = 0, ((), None)
    if _stamp(path) != before:
        return _report(path, version, unchecked="it was written to meanwhile")
    return _report(path, version, *found)


def _check(conn: sqlite3.Connection, seconds: float) -> tuple[tuple[str, ...], str | None]:
    """Return the problems, and why there may be more."""
    deadline = time.monotonic() + seconds
    conn.set_progress_handler(lambda: time.monotonic() > deadline, _INSTRUCTIONS)
    try:
        rows = conn.execute(f"PRAGMA quick_check({MAX_PROBLEMS})").fetchall()
    except sqlite3.DatabaseError as error:
        match error.sqlite_errorcode & 0xFF:
            case sqlite3.SQLITE_INTERRUPT:
                return (), f"that takes more than {seconds:g} s"
            case sqlite3.SQLITE_CORRUPT:
                return (str(error),), None
        raise
    return tuple(text for (text,) in rows if text != "ok"), None


def _report(
    path: Path, version: int, problems: tuple[str, ...] = (), unchecked: str | None = None
) -> LedgerReport:
    return LedgerReport(
        version=version,
        newest=NEWEST,
        size=_size(path),
        wal_size=_size(_beside(path, "-wal")),
        problems=problems,
        unchecked=unchecked,
    )


def _beside(path: Path, end: str) -> Path:
    return path.with_name(path.name + end)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _stamp(path: Path) -> tuple[int, int, bool]:
    found = path.stat()
    return found.st_mtime_ns, found.st_size, _is_open(path)
