"""The writer: the only writing connection of an open store, with group commit.

What is submitted in one round of the event loop goes together. A step that is alone is written in
the loop's own thread, as long as that is quick: two hand-overs would cost more. All else goes to a
thread; while it writes and syncs one group, the next one gathers. A failing job raises at its own
caller: the group is then written again, each job in a savepoint. So a job may run twice.

The connection belongs to the writer thread while it has jobs, else to the event loop. Each has the
ledger's lock while it writes. The thread hands results back by a doorbell, which costs less than
`call_soon_threadsafe`: a ring is a byte in a pipe, and one read answers all.
"""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import sqlite3
import threading
import time
from collections import deque
from contextlib import closing
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec import Struct

from prsm_core.errors import PrsmError, StoreError
from prsm_core.store.connection import LedgerLock, open_writer, to_store_error

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from prsm_core.store.connection import StoreLimits, WritingConnection

T = TypeVar("T")

_RINGS = 256  # answered by one read; small, since the room for them is made each time

_log = logging.getLogger("prsm.store")

QUICK_ONES = 16  # quick groups in a row, until the disk counts as quick again


class Doorbell(Generic[T]):
    """Calls `receive` in `loop` with each thing that a thread leaves, in order."""

    def __init__(self, loop: asyncio.AbstractEventLoop, receive: Callable[[T], None]) -> None:
        self._loop = loop
        self._receive = receive
        self._left: deque[T] = deque()
        self._inner, self._outer = os.pipe()
        os.set_blocking(self._inner, False)
        os.set_blocking(self._outer, False)
        loop.add_reader(self._inner, self._answer)

    def leave(self, thing: T) -> None:
        """Leave a thing and ring; the only method for the thread."""
        self._left.append(thing)
        try:
            os.write(self._outer, b"\0")
        except BlockingIOError:
            return  # it has been ringing all the time, and nobody has come yet

    def close(self) -> None:
        """Receive what was left and take the bell down; the thread must not ring any more."""
        self._receive_all()
        self._loop.remove_reader(self._inner)
        os.close(self._inner)
        os.close(self._outer)

    def _answer(self) -> None:
        os.read(self._inner, _RINGS)
        self._receive_all()

    def _receive_all(self) -> None:
        while self._left:
            self._receive(self._left.popleft())


W = TypeVar("W")


def closed_error() -> StoreError:
    """Return the error of every act on a store that was closed."""
    return StoreError("the ledger is closed", hint="open it again", code="closed")


class Writer:
    """Owns the thread; all public methods belong to the event loop that made it."""

    def __init__(
        self,
        path: Path,
        limits: StoreLimits,
        on_commit: Callable[[], None],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = path
        self._limits = limits
        self._on_commit = on_commit
        self._monotonic = monotonic
        self._loop = asyncio.get_running_loop()
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()  # max_pending at most
        self._gathered: list[Job] = []  # those of this round of the loop
        self._queued = 0  # jobs in either, or just being written
        self._in_line: deque[Job] = deque()  # jobs that it has no room for, oldest first
        self._idle = asyncio.Event()  # closing, and all is settled
        self._closing = False
        self._opened: asyncio.Future[None] = self._loop.create_future()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._abandoned = threading.Event()
        self._pen: Pen | None = None  # the thread's while it has jobs, else the loop's
        self._written: Doorbell[Sequence[Job]] = Doorbell(self._loop, self._settle)
        self._thread = threading.Thread(target=self._run, name="prsm-ledger-write", daemon=True)

    async def start(self) -> None:
        """Open the ledger; raises StoreError."""
        self._thread.start()
        try:
            await self._opened
        except asyncio.CancelledError:
            self._abandoned.set()  # do not wait for the lock any more
            raise

    def submit(
        self, apply: Callable[[WritingConnection, W], T], what: W, *, is_short: bool = True
    ) -> asyncio.Future[T]:
        """Apply something in a transaction; its value comes once that is durable.

        The loop never waits for what is not short. Cancelling the caller does not take a queued job
        back.
        """
        if self._closing:
            raise closed_error()
        job = Job(apply, what, self._loop.create_future(), is_short)
        if self._queued < self._limits.max_pending:
            self._gather(job)
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

    def _gather(self, job: Job) -> None:
        self._queued += 1
        self._gathered.append(job)
        if len(self._gathered) == 1:
            self._loop.call_soon(self._go)

    def _go(self) -> None:
        jobs, self._gathered = self._gathered, []
        if self._queued > 1 or not self._write_at_once(jobs[0]):
            for job in jobs:
                self._queue.put(job)

    def _write_at_once(self, job: Job) -> bool:
        """Write the only job that there is, if it need not wait; the thread is idle then."""
        if not job.is_short or self._pen is None:
            return False
        try:
            if not self._pen.write_at_once(job):
                return False
        except BaseException:  # Ctrl-C, where nobody handles it, interrupts the loop itself
            job.error = StoreError("the step was interrupted; it may have been written")
            self._settle((job,))
            raise
        self._settle((job,))
        return True

    def _settle(self, jobs: Sequence[Job]) -> None:
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
                self._gather(job)

    def _begin(self, pen: Pen) -> None:
        self._pen = pen
        _end(self._opened, None)

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
            lock = LedgerLock(self._path, self._abandoned, self._limits.lock_timeout_s)
            with closing(lock):
                self._serve(lock)
        except Exception as exc:  # noqa: BLE001 - it is raised where the store is opened or closed
            error = to_store_error(exc, f"the ledger {self._path} failed")
        self._post(self._finished, error)

    def _serve(self, lock: LedgerLock) -> None:
        conn = open_writer(self._path, lock, replaces_older=True)
        pen = Pen(self._path, conn, lock, self._limits, self._monotonic)
        self._post(self._begin, pen)
        while jobs := self._take():
            pen.write(jobs)
            self._written.leave(jobs)
        self._abandoned.clear()  # opening was, if at all; closing takes its time
        pen.close()

    def _take(self) -> list[Job]:
        """Return all that is queued; nothing at the end mark, which comes when all is settled."""
        jobs = []
        job = self._queue.get()
        while job is not None:
            jobs.append(job)
            if len(jobs) == self._limits.max_group or self._queue.empty():
                break
            job = self._queue.get()  # nobody else takes from it
        return jobs


def _end(future: asyncio.Future[None], error: Exception | None) -> None:
    if future.done():
        return  # its waiter was cancelled
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)


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
            with self._lock:
                if self._is_checkpoint_due():
                    self._checkpoint()
                    self._checkpointed = self._conn.total_changes
                began = self._monotonic()
                _commit(self._conn, jobs)
        except Exception as exc:  # noqa: BLE001 - it is raised at every caller of the group
            _fail(jobs, exc)
        else:
            self._took(jobs, self._monotonic() - began)

    def write_at_once(self, job: Job) -> bool:
        """Write a job if that is done at once; else nothing has happened.

        Not while another process writes, a checkpoint is due, or the groups before took long.
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
        with self._lock:
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

    def _checkpoint(self) -> None:
        """Fold the log into the ledger; what the disk refuses stays in the log until the next."""
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
