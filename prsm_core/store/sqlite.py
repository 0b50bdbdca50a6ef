"""SqliteStore: the Store that every run uses, one SQLite file for any number of engines.

A reader thread has a read-only connection, so that no query blocks the event loop. Own commits wake
followers at once; those of other processes are polled for.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from prsm_core.config import private_dir
from prsm_core.domain.record import Record
from prsm_core.errors import StoreError
from prsm_core.interfaces.store import AgentRow, Picture, SessionInfo, Store, TakenNames
from prsm_core.store import agent_rows, event_log, readers
from prsm_core.store.apply import Applied, apply_step, prepare
from prsm_core.store.connection import (
    STRANGE,
    LedgerLock,
    StoreLimits,
    has_begun,
    open_reader,
    require_file,
    strange_rows,
    to_store_error,
)
from prsm_core.store.picture import Pictures
from prsm_core.store.writer import Writer, closed_error

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
    from pathlib import Path

    from prsm_core.domain.changes import ChangeRow
    from prsm_core.domain.events import Event
    from prsm_core.domain.messages import RoutedMessage
    from prsm_core.domain.sessions import RunNow, SessionState
    from prsm_core.domain.steps import Committed, HumanRequest, Step


class Reader:
    """Runs queries, each in one snapshot of the ledger."""

    def __init__(self, path: Path, limits: StoreLimits) -> None:
        self._path = path
        self._limits = limits
        self._conn: sqlite3.Connection | None = None
        self._lock: LedgerLock | None = None
        self._abandoned = threading.Event()
        self._closed = False
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="prsm-ledger-read")

    async def start(self) -> None:
        """Open the connection; raises StoreError."""
        try:
            await asyncio.get_running_loop().run_in_executor(self._executor, self._open)
        except asyncio.CancelledError:
            self._abandoned.set()
            raise

    async def run(
        self,
        query: Callable[Concatenate[sqlite3.Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Return `query(connection, *args)`, run in the thread."""
        if self._closed:
            raise closed_error()
        loop = asyncio.get_running_loop()
        asked = partial(self._query, query, *args, **kwargs)
        return await loop.run_in_executor(self._executor, asked)

    async def aclose(self) -> None:
        """Close the connection after the queries that were asked before."""
        if self._closed:
            return
        self._closed = True
        closed = asyncio.get_running_loop().run_in_executor(self._executor, self._close)
        self._executor.shutdown(wait=False)
        await asyncio.shield(closed)

    def _open(self) -> None:
        try:
            require_file(self._path)
            self._lock = LedgerLock(self._path, self._abandoned, self._limits.lock_timeout_s)
            self._conn = open_reader(self._path, self._lock)
        except (sqlite3.Error, OSError) as exc:
            raise to_store_error(exc, f"cannot read the ledger {self._path}") from exc

    def _query(
        self,
        query: Callable[Concatenate[sqlite3.Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        conn = self._conn
        if conn is None:
            raise closed_error()
        try:
            conn.execute("BEGIN")
            try:
                return query(conn, *args, **kwargs)
            finally:
                conn.execute("ROLLBACK")
        except sqlite3.Error as exc:
            raise to_store_error(exc, f"cannot read the ledger {self._path}") from exc
        except STRANGE as exc:
            raise strange_rows(exc, f"cannot read the ledger {self._path}") from exc

    def _close(self) -> None:
        if self._lock is None:
            return
        self._abandoned.clear()  # opening was, if at all; closing takes its time
        with closing(self._lock) as lock:
            if self._conn is not None:
                with lock:
                    self._conn.close()


_log = logging.getLogger("prsm.store")


P = ParamSpec("P")
T = TypeVar("T")

_NOTHING = Picture(seq=0, run=None, agents=(), requests=(), unread=(), turns=(), contexts={})


def _held(number: int) -> int:
    """Limit a number to what a ledger can hold; SQLite's own error would read as damage."""
    return min(number, event_log.AFTER_ALL)


class _Threads(Record, frozen=True):
    reader: Reader
    writer: Writer | None  # None: it is open for reading only


class SqliteStore(Store):
    """A ledger file, opened by `SqliteStore.open`; also an async context manager."""

    def __init__(self, path: Path, limits: StoreLimits) -> None:
        self._path = path
        self._limits = limits
        self._threads: _Threads | None = None  # of a late one until its first step
        self._tail = Tail(self._data_version, limits.poll_s)
        self._closing = False
        self._pictures = Pictures()
        self._turn = asyncio.Lock()  # fair, hence steps stay in the order they were given in
        self._in_line = 0  # those that wait for it, or have just got it

    @classmethod
    async def open(
        cls,
        path: Path,
        *,
        read_only: bool = False,
        late: bool = False,
        limits: StoreLimits | None = None,
    ) -> Self:
        """Open the ledger at `path`; made or upgraded unless `read_only`.

        With `late` the first step makes a missing ledger and its folder, and raises what this
        would: a run that never begins leaves none. Until then reading finds nothing.

        A ledger of an earlier PRSM is renamed, which is logged, and a new one takes its place.

        Raises StoreError, with a hint, when it is missing or of an earlier PRSM (read only), not a
        ledger, newer than this program, locked, or cannot be read.
        """
        store = cls(path, limits or StoreLimits())
        if not late or has_begun(path):
            store._threads = await store._start(read_only=read_only)
        return store

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def commit(self, step: Step) -> Committed:
        """Apply a step in one transaction, durably; cancelling the wait does not undo it."""
        threads = self._threads
        writer = None if threads is None or self._in_line else threads.writer
        if writer is None:
            writer = await self._writer()
        done = await writer.submit(apply_step, prepare(step))
        return done.committed() if isinstance(done, Applied) else done

    async def append(self, events: Sequence[Event]) -> tuple[Event, ...]:
        return await (await self._writer()).submit(event_log.append, events)

    async def events(
        self, session_id: str, after: int = 0, *, follow: bool = False, agent: str | None = None
    ) -> AsyncIterator[Event]:
        if self._tail.closed:
            raise closed_error()
        after = _held(after)
        while not self._tail.closed:
            count = self._tail.count
            page = await self._read(event_log.read_page, session_id, after, agent) or []
            for event in page:
                yield event
                after = event.seq or after
            if len(page) == event_log.PAGE:
                continue
            if not follow:
                return
            await self._tail.wait(count)

    async def last_events(
        self,
        session_id: str,
        agent: str,
        *,
        kinds: Collection[str],
        limit: int,
        before: int | None = None,
    ) -> Sequence[Event]:
        limit, before = _held(limit), None if before is None else _held(before)
        wanted = partial(event_log.read_last, kinds=kinds, limit=limit, before=before)
        return await self._read(wanted, session_id, agent) or []

    async def picture(self, session_id: str) -> Picture:
        return await self._read(self._pictures.read, session_id) or _NOTHING

    async def state(self, session_id: str, at: int | None = None) -> SessionState:
        from prsm_core.store.state import read_state, unknown_session  # few runs need it

        found = await self._read(read_state, session_id, None if at is None else _held(at))
        if found is None:
            raise unknown_session(session_id)
        return found

    async def shared_snapshots(self) -> frozenset[str]:
        return frozenset(await self._read(readers.read_shared_snapshots) or [])

    async def find_commit(self, session_id: str, seq: int) -> tuple[str, int]:
        from prsm_core.store.state import unknown_event  # no run needs it

        found = await self._read(event_log.find_commit, session_id, _held(seq))
        if found is None or found[1] <= 0:
            raise unknown_event(session_id, seq, is_shared=found is not None)
        return found

    async def sessions(self) -> Sequence[SessionInfo]:
        return await self._read(readers.read_sessions) or []

    async def sessions_with(self, label: str, text: str, *, limit: int) -> Sequence[str]:
        return await self._read(readers.read_sessions_with, label, text, _held(limit)) or []

    async def copy(self, session_id: str) -> Mapping[str, Any]:
        """Return all rows of a session by table, as JSON values; see store.copies."""
        from prsm_core.store.copies import read_copy  # no run needs it

        return await self._read(read_copy, session_id) or {}

    async def put_copy(self, copy: Mapping[str, Any], new_id: Callable[[str], str]) -> str:
        """Write the session of a copy in one transaction, and return its id.

        If one of its ids is taken all get new ones by `new_id(table)`. Raises StoreError (code
        `bad_copy`).
        """
        from prsm_core.store.copies import write_copy  # no run needs it

        return await (await self._writer()).submit(
            partial(write_copy, new_id=new_id), copy, is_short=False
        )

    async def runs(self, session_id: str) -> Sequence[RunNow]:
        """Return the session's runs, oldest first."""
        from prsm_core.store.state import read_runs  # no run needs it

        return await self._read(read_runs, session_id) or []

    async def agents(self, session_id: str) -> Sequence[AgentRow]:
        return await self._read(agent_rows.read_agents, session_id) or []

    async def taken(self, session_id: str) -> TakenNames:
        found = await self._read(agent_rows.read_taken, session_id)
        return found or TakenNames(names=frozenset())

    async def inbox(self, session_id: str) -> Sequence[RoutedMessage]:
        return await self._read(readers.read_unconsumed, session_id) or []

    async def open_requests(self, session_id: str) -> Sequence[HumanRequest]:
        return await self._read(readers.read_open, session_id) or []

    async def calls(self, agent_id: str) -> Sequence[Mapping[str, Any]]:
        return await self._read(agent_rows.read_calls, agent_id) or []

    async def changes(self, session_id: str) -> Sequence[ChangeRow]:
        from prsm_core.store.state import read_changes  # no run needs it before a call has ended

        return await self._read(read_changes, session_id) or []

    async def aclose(self) -> None:
        """Finish what was submitted, end the followers, close; a second call does nothing."""
        self._closing = True
        async with self._turn:  # an opening that is under way
            threads = self._threads
        writer = None if threads is None else threads.writer
        if writer is not None:
            await writer.finish()
        self._tail.close()
        if threads is not None:
            await self._end(threads)
        if writer is not None and not has_begun(self._path):
            text = "the ledger %s was removed while it was in use: what was written is lost"
            _log.warning(text, self._path)

    async def _start(self, *, read_only: bool = False) -> _Threads:
        on_commit = self._tail.bump
        writer = None if read_only else Writer(self._path, self._limits, on_commit=on_commit)
        threads = _Threads(Reader(self._path, self._limits), writer)
        try:
            if writer is not None:
                await writer.start()
            await threads.reader.start()
        except BaseException:
            await self._end(threads)
            raise
        return threads

    async def _end(self, threads: _Threads) -> None:
        await threads.reader.aclose()
        if threads.writer is not None:
            await threads.writer.aclose()

    async def _writer(self) -> Writer:
        """Return what writes; the first step of a late ledger makes it."""
        threads = self._threads
        if threads is None or self._in_line:
            threads = await self._made()
        if threads.writer is None:
            raise StoreError("the ledger is open for reading only", code="read_only")
        return threads.writer

    async def _made(self) -> _Threads:
        """Return what the ledger runs once it is made; steps that come meanwhile stay in line."""
        self._in_line += 1
        try:
            async with self._turn:
                if self._threads is None:
                    if self._closing:
                        raise closed_error()
                    private_dir(self._path.parent)
                    self._threads = await self._start()
                    self._tail.bump()
                return self._threads
        finally:
            self._in_line -= 1

    async def _read(
        self,
        query: Callable[Concatenate[sqlite3.Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T | None:
        """Return what a query finds; None in a ledger that is yet to be made."""
        if self._threads is not None:
            return await self._threads.reader.run(query, *args, **kwargs)
        if self._tail.closed:
            raise closed_error()
        return None

    async def _data_version(self) -> int:
        return NEVER if self._threads is None else await self._threads.reader.run(data_version)


NEVER = -1  # no reading connection has such a version


class Tail:
    """Counts changes of the ledger. A follower remembers the count, reads, then waits for more."""

    def __init__(self, version: Callable[[], Awaitable[int]], poll_s: float) -> None:
        self._version = version
        self._poll_s = poll_s
        self._changed: asyncio.Event | None = None  # what followers wait for, once one does
        self._seen = NEVER  # version of the ledger; the first poll of one always differs
        self._polling = False
        self.count = 0
        self.closed = False

    def bump(self) -> None:
        """Wake all followers."""
        self.count += 1
        if self._changed is not None:
            self._changed.set()
            self._changed = None

    def close(self) -> None:
        """Wake all followers for the last time."""
        self.closed = True
        self.bump()

    async def wait(self, count: int) -> None:
        """Return once there have been more than `count` changes, or the store closes."""
        while self.count == count and not self.closed:
            try:
                if self._changed is None:
                    self._changed = asyncio.Event()
                async with asyncio.timeout(self._poll_s):
                    await self._changed.wait()
            except TimeoutError:
                await self._poll()

    async def _poll(self) -> None:
        if self._polling or self.closed:
            return  # another follower asks already, and wakes this one too
        self._polling = True
        try:
            version = await self._version()
        finally:
            self._polling = False
        if version != self._seen:
            self._seen = version
            self.bump()


def data_version(conn: sqlite3.Connection) -> int:
    """Return a number that differs once another connection has changed the ledger."""
    (version,) = conn.execute("PRAGMA data_version").fetchone()
    return int(version)
