"""SqliteStore: the Store that every run uses, one SQLite file for any number of engines."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Self

from prsm_core.errors import StoreError
from prsm_core.interfaces.store import AgentRow, SessionInfo, Store
from prsm_core.store import agent_rows, event_log, inbox, requests, runs
from prsm_core.store.apply import apply_step
from prsm_core.store.limits import StoreLimits
from prsm_core.store.reader import Reader
from prsm_core.store.tail import Tail
from prsm_core.store.writer import Writer, closed_error

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from prsm_core.domain.events import Event
    from prsm_core.domain.messages import RoutedMessage
    from prsm_core.domain.steps import Committed, HumanRequest, Step


class SqliteStore(Store):
    """A ledger file, opened by `SqliteStore.open`; also an async context manager."""

    def __init__(self, reader: Reader, writer: Writer | None, tail: Tail) -> None:
        self._reader = reader
        self._writer = writer
        self._tail = tail

    @classmethod
    async def open(
        cls, path: Path, *, read_only: bool = False, limits: StoreLimits | None = None
    ) -> Self:
        """Open the ledger at `path`; made or upgraded unless `read_only`.

        Raises StoreError, with a hint, when it is missing (read only), not a ledger, newer than
        this program, locked, or cannot be read.
        """
        limits = limits or StoreLimits()
        reader = Reader(path, limits)
        tail = Tail(reader, limits.poll_s)
        writer = None if read_only else Writer(path, limits, on_commit=tail.bump)
        store = cls(reader, writer, tail)
        try:
            if writer is not None:
                await writer.start()
            await reader.start()
        except BaseException:
            await store.aclose()
            raise
        return store

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def commit(self, step: Step) -> Committed:
        """Apply a step in one transaction and return once it is durable.

        A caller that is cancelled while it waits does not undo the step. Control steps take from
        `data`: run_started `task`, `workspace` and, to name the engine, `pid`, `start`,
        `boot_id`; run_finished `status` and whatever else is to be kept; resume_token `token`;
        grant anything.
        """
        return await self._writing().submit(partial(apply_step, step=step))

    async def append(self, events: Sequence[Event]) -> tuple[Event, ...]:
        """Append events that no step causes, numbered and durable."""
        return await self._writing().submit(partial(event_log.append, events=events))

    async def events(
        self, session_id: str, after: int = 0, *, follow: bool = False, agent: str | None = None
    ) -> AsyncIterator[Event]:
        """Yield the session's events after `after`; with `follow` until the store is closed."""
        if self._tail.closed:
            raise closed_error()
        while not self._tail.closed:
            count = self._tail.count
            page = await self._reader.run(event_log.read_page, session_id, after, agent)
            for event in page:
                yield event
                after = event.seq or after
            if len(page) == event_log.PAGE:
                continue
            if not follow:
                return
            await self._tail.wait(count)

    async def sessions(self) -> Sequence[SessionInfo]:
        """Return all sessions, newest first."""
        return await self._reader.run(runs.read_sessions)

    async def agents(self, session_id: str) -> Sequence[AgentRow]:
        """Return the session's agents in order of creation."""
        return await self._reader.run(agent_rows.read_agents, session_id)

    async def inbox(self, session_id: str) -> Sequence[RoutedMessage]:
        """Return the messages that the present incarnations have not consumed."""
        return await self._reader.run(inbox.read_unconsumed, session_id)

    async def open_requests(self, session_id: str) -> Sequence[HumanRequest]:
        """Return the requests nobody has answered, oldest first."""
        return await self._reader.run(requests.read_open, session_id)

    async def calls(self, agent_id: str) -> Sequence[Mapping[str, Any]]:
        """Return the agent's tool calls: the ledger's columns with `turn_no`, `turn_status`."""
        return await self._reader.run(agent_rows.read_calls, agent_id)

    async def grants(self, session_id: str) -> Sequence[Mapping[str, Any]]:
        """Return what the session's grant steps stored: agent_id, data, created_at."""
        return await self._reader.run(runs.read_grants, session_id)

    async def ancestry(self, turn_id: str) -> Sequence[str]:
        """Return the turns from the root of the thread to `turn_id`."""
        return await self._reader.run(agent_rows.read_ancestry, turn_id)

    async def aclose(self) -> None:
        """Finish what was submitted, end the followers, close; a second call does nothing."""
        if self._writer is not None:
            await self._writer.finish()
        self._tail.close()
        await self._reader.aclose()
        if self._writer is not None:
            await self._writer.aclose()

    def _writing(self) -> Writer:
        if self._writer is None:
            raise StoreError("the ledger is open for reading only", code="read_only")
        return self._writer
