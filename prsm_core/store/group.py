"""A group of jobs, written in one transaction by whoever holds the pen.

The connection that writes belongs to one at a time: to the writer thread while it has jobs, else to
the event loop. Each has the ledger's lock while it writes.
"""

from __future__ import annotations

import logging
import sqlite3
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from prsm_core.errors import PrsmError
from prsm_core.store.connection import to_store_error

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from prsm_core.store.connection import LedgerLock
    from prsm_core.store.known import WritingConnection
    from prsm_core.store.limits import StoreLimits

_log = logging.getLogger("prsm.store")

QUICK_ONES = 16  # quick groups in a row, until the disk counts as quick again


class Job(Struct):
    """What is to be written, and who waits for it."""

    apply: Callable[[WritingConnection, Any], Any]
    what: Any
    future: asyncio.Future[Any]
    is_short: bool = False  # a few rows, whatever the ledger holds
    value: Any = None
    error: Exception | None = None


class Pen:
    """The writing connection under its lock, and how long it takes."""

    def __init__(
        self,
        path: Path,
        conn: WritingConnection,
        lock: LedgerLock,
        limits: StoreLimits,
        monotonic: Callable[[], float],
    ) -> None:
        self._path = path
        self._conn = conn
        self._lock = lock
        self._limits = limits
        self._monotonic = monotonic
        self._checkpointed = 0  # total_changes at the last checkpoint
        self._to_be_quick = 0  # quick groups that are wanted before the next one may be waited for

    def write(self, jobs: Sequence[Job]) -> None:
        """Write jobs and wait for whom it takes; what fails is the error of each job."""
        try:
            with self._lock.held():
                self._checkpoint_if_due()
                began = self._monotonic()
                _commit(self._conn, jobs)
        except Exception as exc:  # noqa: BLE001 - it is raised at every caller of the group
            _fail(jobs, exc)
        else:
            self._took(jobs, self._monotonic() - began)

    def write_at_once(self, job: Job) -> bool:
        """Write a job if that is done at once; else nothing has happened.

        It is not where another process writes, where the log is to be folded into the ledger, and
        where the groups before took long.
        """
        if self._to_be_quick or self._is_checkpoint_due() or not self._lock.take_free():
            return False
        jobs = (job,)
        try:
            began = self._monotonic()
            if not _commit(self._conn, jobs, wait=False):
                return False
        except Exception as exc:  # noqa: BLE001 - it is raised at the job's caller
            _fail(jobs, exc)
        else:
            self._took(jobs, self._monotonic() - began)
        finally:
            self._lock.release()
        return True

    def close(self) -> None:
        """Fold the log into the ledger and close the connection."""
        with self._lock.held():
            self._checkpoint()
            self._conn.close()

    def _took(self, jobs: Sequence[Job], seconds: float) -> None:
        """Learn from a job that was alone: what many take says nothing of one."""
        if len(jobs) > 1:
            return
        if seconds > self._limits.at_once_s:
            self._to_be_quick = QUICK_ONES
        elif self._to_be_quick:
            self._to_be_quick -= 1

    def _is_checkpoint_due(self) -> bool:
        return self._conn.total_changes - self._checkpointed >= self._limits.checkpoint_rows

    def _checkpoint_if_due(self) -> None:
        if self._is_checkpoint_due():
            self._checkpoint()
            self._checkpointed = self._conn.total_changes

    def _checkpoint(self) -> None:
        """Fold the log into the ledger; where the disk refuses, the log keeps what was committed.

        So that is no failure of what was written, and the next checkpoint tries again.
        """
        try:
            self._conn.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        except sqlite3.OperationalError as error:
            _log.warning("the log of the ledger %s stays as it is: %s", self._path, error)


def _fail(jobs: Sequence[Job], error: Exception) -> None:
    for job in jobs:
        job.error = to_store_error(error, "nothing was written")


def _commit(conn: WritingConnection, jobs: Sequence[Job], *, wait: bool = True) -> bool:
    """Apply jobs in a transaction; False where another one would have to be waited for."""
    try:
        if not conn.begin(wait=wait):
            return False
        if not _apply_all(conn, jobs):
            conn.take_back()
            if not conn.begin(wait=wait):
                return False
            for job in jobs:
                _apply(conn, job)
        conn.own_cursor.execute("COMMIT")
    except BaseException:
        conn.take_back()
        raise
    return True


def _apply_all(conn: WritingConnection, jobs: Sequence[Job]) -> bool:
    """Apply all jobs, as nearly always works; savepoints would cost each of them its pages."""
    try:
        for job in jobs:
            job.value = job.apply(conn, job.what)
    except Exception:  # noqa: BLE001 - whose it is, and what it means, the second time tells
        return False
    return True


def _apply(conn: WritingConnection, job: Job) -> None:
    """Apply one job or nothing of it; its error is its own."""
    conn.execute("SAVEPOINT job")
    try:
        job.value = job.apply(conn, job.what)
    except PrsmError as exc:
        job.error = exc
    except Exception as exc:  # noqa: BLE001 - it is raised at the caller of this job
        job.error = to_store_error(exc, "the step cannot be written")
        job.error.__cause__ = exc
    if job.error is not None:
        conn.known.forget()
        # Fails when SQLite has already rolled everything back (disk full): then all jobs fail.
        conn.execute("ROLLBACK TO job")
    conn.execute("RELEASE job")
