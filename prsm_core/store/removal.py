"""Takes a session out of a ledger, in one transaction, finds what texts cite, and gives space back.

The queries here keep the ledger valid, not SQLite: it would scan a table for each deleted row,
since few referring columns have an index.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager
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
from prsm_core.store.session_rows import SHARED, TABLES

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_MIN_BYTES = 4 * 1024 * 1024  # less is not worth the time that it takes to write the file anew
_MIN_SHARE = 0.25  # of the file

_FORKS = (
    "SELECT session_id FROM forks WHERE origin_id = :session UNION"
    " SELECT DISTINCT a.session_id FROM turns AS t JOIN agents AS a USING (agent_id)"
    " WHERE a.session_id <> :session AND t.parent_turn_id IN ("
    " SELECT id FROM turns JOIN agents USING (agent_id) WHERE session_id = :session)"
    " ORDER BY session_id DESC"  # a fork of a fork is newer, and goes first
)
_UNUSED = (
    "DELETE FROM engines WHERE engine_id NOT IN"
    " (SELECT engine_id FROM runs WHERE engine_id NOT NULL"
    " UNION SELECT engine_id FROM runs_past WHERE engine_id NOT NULL)"
)
_OVERWRITE = "PRAGMA wal_checkpoint(TRUNCATE)"
_OUTSIDE = (
    "SELECT agent_id FROM agents WHERE session_id = :session UNION"
    " SELECT resume_token FROM agents WHERE session_id = :session UNION"
    " SELECT p.resume_token FROM agents_past AS p JOIN agents USING (agent_id)"
    " WHERE session_id = :session"
)
_SNAPSHOTS = (
    "SELECT snapshot_id FROM snapshots WHERE session_id = :session AND kind <> 'manual'"
    " EXCEPT SELECT snapshot_id FROM snapshots WHERE session_id <> :session"
)


@contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the ledger for reading. Raises StoreError, also for what fails meanwhile."""
    require_file(path)
    try:
        with closing(LedgerLock(path)) as lock, closing(open_reader(path, lock)) as conn:
            yield conn
    except (sqlite3.Error, OSError) as error:
        raise to_store_error(error, f"the ledger {path} cannot be read") from error


@contextmanager
def _writing(path: Path, failure: str) -> Iterator[sqlite3.Connection]:
    """Open the ledger for writing, under its lock until it is closed; else as `_reading`."""
    try:
        with closing(LedgerLock(path)) as lock:
            conn = open_writer(path, lock)
            with lock, closing(conn):
                yield conn
    except (sqlite3.Error, OSError) as error:
        raise to_store_error(error, failure) from error


def cited_in(
    path: Path, begins: str, cited: re.Pattern[str], session_id: str | None = None
) -> frozenset[str]:
    """Return what `cited` finds in the rows of a session, or in all of the ledger at `path`.

    Only texts with `begins` are looked at; nothing that JSON escapes may be in either. Raises
    StoreError for an unreadable ledger.
    """
    with _reading(path) as conn:
        texts = _texts(conn, begins, session_id)
        return frozenset(match[0] for text in texts for match in cited.finditer(text))


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
    with _reading(path) as conn:
        return _measure(conn)


def compact(path: Path) -> tuple[Space, Space]:
    """Write the ledger at `path` anew without its free pages; return it as before and as after.

    SQLite keeps pages of deleted rows for later ones. This is one transaction: a kill or a full
    disk leaves the ledger as it was. The caller makes sure that no engine uses it; a writer waits.

    Raises:
        StoreError: there is no ledger, another process reads it (code `locked`), or it cannot be
            written. Then it is as it was.
    """
    require_file(path)
    with _writing(path, f"the ledger {path} is not compacted") as conn:
        before = _measure(conn)
        # What SQLite writes aside holds all of the ledger: in its own folder, which is
        # private, and not in memory, which may be less.
        folder = str(path.parent).replace("'", "''")
        conn.execute("PRAGMA temp_store = FILE")
        conn.execute(f"PRAGMA temp_store_directory = '{folder}'")
        try:
            conn.execute("VACUUM")
        finally:
            conn.execute("PRAGMA temp_store_directory = ''")
        (is_busy, *_) = conn.execute(_OVERWRITE).fetchone()
        if is_busy:
            raise StoreError(
                f"another process reads the ledger {path}: its space is given back later",
                hint="try again when that has ended: prsm sessions compact",
                code="locked",
            )
        return before, _measure(conn)


def _measure(conn: sqlite3.Connection) -> Space:
    pragmas = ("page_size", "page_count", "freelist_count")
    page, count, free = (conn.execute(f"PRAGMA {name}").fetchone()[0] for name in pragmas)
    return Space(size=page * count, free=page * free)


def names_outside(path: Path, session_id: str) -> frozenset[str]:
    """Return a session's names in others' files: ids of its agents, tokens of their threads.

    Raises StoreError as `remove_session` does, for one that cannot be deleted.
    """
    wanted = {"session": session_id}
    with _reading(path) as conn:
        _check(conn, wanted)
        return frozenset(name for (name,) in conn.execute(_OUTSIDE, wanted) if name)


def own_snapshots(path: Path, session_id: str) -> frozenset[str]:
    """Return ids of the snapshots taken for this session alone, without a person's."""
    with _reading(path) as conn:
        return frozenset(name for (name,) in conn.execute(_SNAPSHOTS, {"session": session_id}))


def holds_session(path: Path, session_id: str) -> bool:
    """Return whether there is such a session; raises StoreError where that cannot be read."""
    try:
        with _reading(path) as conn:
            return _is_there(conn, {"session": session_id})
    except StoreError as error:
        if error.code == "no_ledger":
            return False
        raise


def remove_session(path: Path, session_id: str) -> Mapping[str, int]:
    """Delete and overwrite a session of the ledger at `path`; return how many rows went, by table.

    Its caller owns the session, so that nobody writes to it.

    Raises:
        StoreError: there is no such ledger or session (code `unknown_session`), other sessions go
            on from turns of this one (`has_forks`), or the ledger cannot be written.
    """
    require_file(path)
    with _writing(path, f"nothing was deleted from the ledger {path}") as conn:
        conn.execute("PRAGMA foreign_keys = OFF")
        conn.execute("PRAGMA secure_delete = ON")
        counts = _remove(conn, {"session": session_id})
        conn.execute(_OVERWRITE).fetchall()
        return counts


def overwrite_removed(path: Path) -> None:
    """Fold a removal that was cut off from the log into the file. Raises StoreError."""
    with _writing(path, f"the ledger {path} cannot be written") as conn:
        conn.execute(_OVERWRITE).fetchall()


def _remove(conn: sqlite3.Connection, wanted: Mapping[str, str]) -> Mapping[str, int]:
    conn.execute("BEGIN IMMEDIATE")
    try:
        _check(conn, wanted)
        counts = {}
        for table, condition in reversed(TABLES.items()):
            if table not in SHARED:
                sql = f"DELETE FROM {table} WHERE {condition}"  # noqa: S608 - names of ours
                counts[table] = conn.execute(sql, wanted).rowcount
        conn.execute(_UNUSED)
        conn.execute("COMMIT")
    except BaseException:
        if conn.in_transaction:
            conn.execute("ROLLBACK")
        raise
    return counts


def _is_there(conn: sqlite3.Connection, wanted: Mapping[str, str]) -> bool:
    sql = "SELECT 1 FROM meta WHERE session_id = :session"
    return conn.execute(sql, wanted).fetchone() is not None


def _check(conn: sqlite3.Connection, wanted: Mapping[str, str]) -> None:
    session = wanted["session"]
    if not _is_there(conn, wanted):
        raise StoreError(f"there is no session {session}", code="unknown_session")
    forks = [fork for (fork,) in conn.execute(_FORKS, wanted)]
    if forks:
        raise StoreError(
            f"session {session} cannot be deleted: its past is shared by {', '.join(forks[:5])}",
            hint="delete what was forked from it first: prsm sessions delete " + forks[0],
            code="has_forks",
        )
