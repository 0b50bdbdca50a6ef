"""The writer thread: the only writing connection of an open store, with group commit.

While one group of jobs is written and synced, the next one gathers in the queue. A failing job
raises at its own caller and leaves the others alone: the group is then written again, each job in
a savepoint. A job may therefore run twice.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import sqlite3
import threading
from collections import deque
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from prsm_core.errors import PrsmError, StoreError
from prsm_core.store.connection import LedgerLock, open_writer, to_store_error
from prsm_core.store.doorbell import Doorbell

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from prsm_core.store.known import WritingConnection
    from prsm_core.store.limits import StoreLimits

_log = logging.getLogger("prsm.store")

T = TypeVar("T")
W = TypeVar("W")


class _Job(Struct):
    apply: Callable[[WritingConnection, Any], Any]
    what: Any
    future: asyncio.Future[Any]
    value: Any = None
    error: Exception | None = None


def closed_error() -> StoreError:
    """Return the error of every act on a store that was closed."""
    return StoreError("the ledger is closed", hint="open it again", code="closed")


class Writer:
    """Owns the thread; all public methods belong to the event loop that made it."""

    def __init__(self, path: Path, limits: StoreLimits, on_commit: Callable[[], None]) -> None:
        self._path = path
        self._limits = limits
        self._on_commit = on_commit
        self._loop = asyncio.get_running_loop()
        self._queue: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()  # max_pending at most
        self._queued = 0  # jobs in it, or just being written
        self._in_line: deque[_Job] = deque()  # jobs that it has no room for, oldest first
        self._idle = asyncio.Event()  # closing, and all is settled
        self._closing = False
        self._opened: asyncio.Future[None] = self._loop.create_future()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._abandoned = threading.Event()
        self._checkpointed = 0  # total_changes at the last checkpoint; the thread's
        self._written: Doorbell[Sequence[_Job]] = Doorbell(self._loop, self._settle)
        self._thread = threading.Thread(target=self._run, name="prsm-ledger-write", daemon=True)

    async def start(self) -> None:
        """Open the ledger; raises StoreError."""
        self._thread.start()
        try:
            await self._opened
        except asyncio.CancelledError:
            self._abandoned.set()  # do not wait for the lock any more
            raise

    def submit(self, apply: Callable[[WritingConnection, W], T], what: W) -> asyncio.Future[T]:
        """Apply something in a transaction; its value comes once that is durable.

        A caller that is cancelled after the job is queued does not take it back.
        """
        if self._closing:
            raise closed_error()
        job = _Job(apply, what, self._loop.create_future())
        if self._queued < self._limits.max_pending:
            self._queued += 1
            self._queue.put(job)
        else:
            self._in_line.append(job)
        return job.future

    async def finish(self) -> None:
        """Refuse new jobs and wait until all earlier ones are settled."""
        self._closing = True
        if self._queued:
            await self._idle.wait()

    async def aclose(self) -> None:
        """Finish, checkpoint and close the connection."""
        await self.finish()
        if self._thread.is_alive():
            self._queue.put(None)
            await asyncio.shield(self._ended)

    def _settle(self, jobs: Sequence[_Job]) -> None:
        self._queued -= len(jobs)
        for job in jobs:
            future = job.future
            if future.done():
                continue  # its caller was cancelled
            if job.error is None:
                future.set_result(job.value)
            else:
                future.set_exception(job.error)
        if self._in_line:
            self._let_in()
        if self._closing and not self._queued:
            self._idle.set()
        self._on_commit()

    def _let_in(self) -> None:
        """Queue the next jobs in line, but those whose callers were cancelled meanwhile."""
        while self._in_line and self._queued < self._limits.max_pending:
            job = self._in_line.popleft()
            if not job.future.done():
                self._queued += 1
                self._queue.put(job)

    def _finished(self, error: StoreError | None) -> None:
        """Hand the thread's last error to whoever opened or closes the store."""
        self._written.close()
        if not self._opened.done():
            _end(self._opened, error)
            error = None
        _end(self._ended, None if self._opened.cancelled() else error)

    # What follows runs in the thread.

    def _post(self, callback: Callable[..., object], *args: object) -> None:
        try:
            self._loop.call_soon_threadsafe(callback, *args)
        except RuntimeError:
            return  # the loop is closed: nobody is left who could wait for this

    def _run(self) -> None:
        error = None
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with LedgerLock(self._path, self._abandoned, self._limits.lock_timeout_s) as lock:
                self._serve(lock)
        except Exception as exc:  # noqa: BLE001 - it is raised where the store is opened or closed
            error = to_store_error(exc, f"the ledger {self._path} failed")
        self._post(self._finished, error)

    def _serve(self, lock: LedgerLock) -> None:
        conn = open_writer(self._path, lock)
        self._post(_end, self._opened, None)
        while jobs := self._take():
            self._write(conn, lock, jobs)
            self._written.leave(jobs)
        self._abandoned.clear()  # opening was, if at all; closing takes its time
        with lock.held():
            self._checkpoint(conn)
            conn.close()

    def _take(self) -> list[_Job]:
        """Return all that is queued; nothing at the end mark, which comes when all is settled."""
        jobs = []
        job = self._queue.get()
        while job is not None:
            jobs.append(job)
            if len(jobs) == self._limits.max_group or self._queue.empty():
                break
            job = self._queue.get()  # nobody else takes from it
        return jobs

    def _write(self, conn: WritingConnection, lock: LedgerLock, jobs: Sequence[_Job]) -> None:
        try:
            with lock.held():
                self._checkpoint_if_due(conn)
                _commit(conn, jobs)
        except Exception as exc:  # noqa: BLE001 - it is raised at every caller of the group
            for job in jobs:
                job.error = to_store_error(exc, "nothing was written")

    def _checkpoint_if_due(self, conn: WritingConnection) -> None:
        if conn.total_changes - self._checkpointed >= self._limits.checkpoint_rows:
            self._checkpoint(conn)
            self._checkpointed = conn.total_changes

    def _checkpoint(self, conn: WritingConnection) -> None:
        """Fold the log into the ledger; where the disk refuses, the log keeps what was committed.

        So that is no failure of what was written, and the next checkpoint tries again.
        """
        try:
            conn.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        except sqlite3.OperationalError as error:
            _log.warning("the log of the ledger %s stays as it is: %s", self._path, error)


def _end(future: asyncio.Future[None], error: Exception | None) -> None:
    if future.done():
        return  # its waiter was cancelled
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)


def _commit(conn: WritingConnection, jobs: Sequence[_Job]) -> None:
    try:
        conn.begin()
        if not _apply_all(conn, jobs):
            conn.take_back()
            conn.begin()
            for job in jobs:
                _apply(conn, job)
        conn.own_cursor.execute("COMMIT")
    except BaseException:
        conn.take_back()
        raise


def _apply_all(conn: WritingConnection, jobs: Sequence[_Job]) -> bool:
    """Apply all jobs, as nearly always works; savepoints would cost each of them its pages."""
    try:
        for job in jobs:
            job.value = job.apply(conn, job.what)
    except Exception:  # noqa: BLE001 - whose it is, and what it means, the second time tells
        return False
    return True


def _apply(conn: WritingConnection, job: _Job) -> None:
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
