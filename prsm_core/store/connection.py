"""How a ledger file is opened and closed: its lock, its pragmas, what SQLite's errors mean.

SQLite before 3.51.3 can corrupt a file in WAL mode when two connections write or checkpoint at the
same moment. Hence the lock beside the ledger around every open, close, commit and checkpoint, and
no automatic checkpoints: they would run outside of it.
"""

from __future__ import annotations

import fcntl
import logging
import os
import sqlite3
import threading
import time
from contextlib import closing
from itertools import count
from typing import TYPE_CHECKING, TypeVar

from prsm_core.domain.record import Record
from prsm_core.errors import StoreError
from prsm_core.store.migrations import check_version, migrate, no_ledger, require_current

if TYPE_CHECKING:
    from pathlib import Path

    from prsm_core.domain.rows import Fence


class StoreLimits(Record, frozen=True, kw_only=True):
    """Bounds of an open store; the defaults suit every run."""

    max_pending: int = 1024  # queued steps; submitters beyond it wait
    max_group: int = 256  # steps of one transaction: bounds how long the lock is held
    checkpoint_rows: int = 2000  # changed rows between checkpoints, about 5 MB of log
    at_once_s: float = 0.001  # that a step may take for which the event loop waits
    lock_timeout_s: float = 30.0
    poll_s: float = 0.05  # how late a follower sees the commit of another process


_log = logging.getLogger("prsm.store")

C = TypeVar("C", bound=sqlite3.Connection)

_LOCK_POLL_S = 0.0005  # a waiter that looks rarely starves beside a busy engine
_STATEMENTS = 256
_BUSY_TIMEOUT_MS = 5000
_MOST = 4096  # entries of each kind; beyond it they are all read again
STRANGE = (ValueError, TypeError, LookupError, AttributeError, RecursionError, OverflowError)
_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_OLDEST_SQLITE = (3, 37)


class Known:
    """What the writer remembers of the ledger in its transaction, so as not to ask again.

    All is forgotten if another connection has committed since the last group, or a transaction of
    its own was taken back.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._version = -1  # SQLite's count of foreign commits; never negative
        self.fences: dict[str, Fence] = {}  # by agent
        self.last_seqs: dict[str, int] = {}  # number of the newest event, by session

    def refresh(self, version: int) -> None:
        """Begin a transaction at `version` of the ledger."""
        if version != self._version or len(self.fences) + len(self.last_seqs) > self._most:
            self.forget()
            self._version = version

    def forget(self) -> None:
        """Forget everything: what was learnt in this transaction is taken back."""
        self.fences.clear()
        self.last_seqs.clear()


class WritingConnection(sqlite3.Connection):
    """The writer's connection, with what it knows."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]  # as `sqlite3.connect` calls it
        self.known = Known()
        self._waits = True  # for the locks of others, as long as `open_unlocked` has said
        self.own_cursor = self.cursor()  # runs all statements of steps: one for each takes its time

    def begin(self, *, wait: bool = True) -> bool:
        """Begin a transaction that may write; False where another one does, and `wait` is not."""
        if wait != self._waits:
            self.own_cursor.execute(f"PRAGMA busy_timeout = {_BUSY_TIMEOUT_MS if wait else 0}")
            self._waits = wait
        try:
            self.own_cursor.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if wait or error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
            return False
        # Asked inside of it: from here on nobody else can commit.
        (version,) = self.own_cursor.execute("PRAGMA data_version").fetchone()
        self.known.refresh(version)
        return True

    def take_back(self) -> None:
        """Roll back, if SQLite has not done so by itself as where the disk is full."""
        self.known.forget()
        if self.in_transaction:
            self.execute("ROLLBACK")


class LedgerLock:
    """The lock `<ledger>.lock`, for threads too, held inside `with`; `abandoned` ends a wait."""

    def __init__(
        self,
        ledger: Path,
        abandoned: threading.Event | None = None,
        timeout_s: float = StoreLimits().lock_timeout_s,
    ) -> None:
        self._path = ledger.with_name(ledger.name + ".lock")
        self._abandoned = abandoned or threading.Event()
        self._timeout_s = timeout_s
        try:
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise StoreError(
                f"the ledger cannot be locked: {self._path}: {error.strerror}",
                hint="it is read under a lock, too: make its folder writable, "
                "or let PRSM_HOME name a copy that is",
            ) from error

    def __enter__(self) -> None:
        """Take the lock; raise StoreError when another process keeps it too long."""
        # Not a blocking flock: a stopped process that holds the lock must not hang this one.
        if self.take_free():
            return
        deadline = time.monotonic() + self._timeout_s
        while not self.take_free():
            if time.monotonic() > deadline or self._abandoned.wait(_LOCK_POLL_S):
                raise StoreError(
                    f"another process holds {self._path}; waited {self._timeout_s:g} seconds at"
                    " most",
                    hint=f"see who holds it (fuser {self._path}); continue or end that process",
                    code="locked",
                )

    def __exit__(self, *exc_info: object) -> None:
        self.release()

    def release(self) -> None:
        """Give the lock back."""
        fcntl.flock(self._fd, fcntl.LOCK_UN)

    def take_free(self) -> bool:
        """Take the lock if nobody has it."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        """Close the lock file; it stays on disk, since removing it would split the lock."""
        os.close(self._fd)


def to_store_error(error: Exception, doing: str) -> StoreError:
    """Return what an error of SQLite means to the caller, and was caused by."""
    found = _store_error(error, doing)
    found.__cause__ = error  # it may be raised elsewhere, in another thread
    return found


def _store_error(error: Exception, doing: str) -> StoreError:
    if isinstance(error, StoreError):
        return StoreError(error.message, hint=error.hint, code=error.code)
    text = f"{doing}: {error}"
    if isinstance(error, sqlite3.IntegrityError) and "NOT NULL" not in str(error):
        return StoreError(text, hint="an id is used twice or names nothing", code="conflict")
    if getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGED:
        hint = "`prsm doctor` says what is damaged; move the ledger aside, or put back a copy of it"
        return StoreError(text, hint=hint, code="damaged")
    if isinstance(error, sqlite3.OperationalError | OSError):
        return StoreError(text, hint="check the disk: space, permissions, health")
    return StoreError(text, code="unfit")  # what was to be written is at fault, not the ledger


def strange_rows(error: Exception, doing: str) -> StoreError:
    """Return the error of rows that can be read, with values that nobody wrote."""
    return StoreError(
        f"{doing}: a row holds what it cannot hold: {type(error).__name__}: {error}",
        hint="put back a copy of the ledger, or move it aside: the next run begins a new one",
        code="damaged",
    )


def open_writer(path: Path, lock: LedgerLock, *, replaces_older: bool = False) -> WritingConnection:
    """Open the ledger for writing, created or upgraded where needed; any one thread may use it.

    With `replaces_older` a ledger of an earlier PRSM is renamed, and a new one takes its place.
    """
    with lock:
        try:
            return _open_writer(path)
        except StoreError as error:
            if not replaces_older or error.code != "older_ledger":
                raise
        kept = _set_aside(path)
        text = "the ledger of an earlier PRSM is kept as %s, and a new one begins"
        _log.warning(text, kept)
        return _open_writer(path)


def _open_writer(path: Path) -> WritingConnection:
    _create(path)
    conn = open_unlocked(path, "rw", WritingConnection, any_thread=True)
    try:
        # First of all: nothing may change in a file that is no ledger of ours.
        check_version(conn)
        _use_wal(conn)
        conn.execute("PRAGMA synchronous = FULL")
        conn.execute("PRAGMA foreign_keys = ON")
        # Undo of savepoints, never in a file.
        conn.execute("PRAGMA temp_store = MEMORY")
        migrate(conn)
    except BaseException:
        conn.close()
        raise
    return conn


def _set_aside(path: Path) -> Path:
    """Rename a ledger to a free name beside it, and return that; nothing of it is lost.

    Raises StoreError (code `locked`) while a process has it open: that would later remove the new
    ledger's write-ahead log, which has the same name.
    """
    with closing(open_unlocked(path, "rw", sqlite3.Connection)) as conn:
        # SQLite lets nobody leave WAL mode while others have the file open. What the log holds is
        # in the file afterwards, so that there is one file to rename.
        conn.execute("PRAGMA busy_timeout = 0")
        try:
            conn.execute("PRAGMA journal_mode = DELETE").fetchone()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
            raise StoreError(
                f"another process uses the ledger {path} of an earlier PRSM",
                hint=f"see which one (fuser {path}), end it and try again",
                code="locked",
            ) from error
    names = (path.with_name(f"{path.name}.old-{number}") for number in count(1))
    kept = next(name for name in names if not name.exists())
    return path.rename(kept)


def has_begun(path: Path) -> bool:
    """Return whether a ledger lies there; reading the file would drop this process's locks."""
    return path.exists() and path.stat().st_size > 0


def require_file(path: Path) -> None:
    """Raise StoreError unless the ledger exists."""
    if not has_begun(path):
        raise no_ledger(path)


def open_reader(path: Path, lock: LedgerLock) -> sqlite3.Connection:
    """Open an existing ledger for reading."""
    with lock:
        conn = open_unlocked(path, "ro", sqlite3.Connection)
        try:
            require_current(conn)
            conn.row_factory = sqlite3.Row
        except BaseException:
            conn.close()
            raise
        return conn


def _use_wal(conn: sqlite3.Connection) -> None:
    (journal,) = conn.execute("PRAGMA journal_mode = WAL").fetchone()
    if journal != "wal":
        raise StoreError(
            "the file system of the ledger does not allow write-ahead logging",
            hint="Put PRSM_HOME on a local disk; network file systems do not work.",
        )


def _create(path: Path) -> None:
    # Only a file that did not exist may be opened and closed beside SQLite: closing any other
    # descriptor of a ledger would drop the POSIX locks this process holds on it.
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        return


def sqlite_version() -> str:
    """Return the version of SQLite; raise StoreError when it is too old for ledgers."""
    if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
        raise StoreError(
            f"SQLite {sqlite3.sqlite_version} is too old: the ledger uses STRICT tables",
            hint="use a Python built with SQLite 3.37 or later",
        )
    return sqlite3.sqlite_version


def open_unlocked(path: Path, mode: str, factory: type[C], *, any_thread: bool = False) -> C:
    """Open a file in a mode of SQLite's URIs; the caller holds the lock, or needs none."""
    sqlite_version()
    conn = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        isolation_level=None,
        cached_statements=_STATEMENTS,
        check_same_thread=not any_thread,
        factory=factory,
    )
    conn.execute(f"PRAGMA busy_timeout = {_BUSY_TIMEOUT_MS}")
    conn.execute("PRAGMA wal_autocheckpoint = 0")
    return conn
