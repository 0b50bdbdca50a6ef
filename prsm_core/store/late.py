"""A ledger whose file is made by the first step: a run that never begins leaves none."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Self

from prsm_core.config import private_dir
from prsm_core.interfaces.store import AgentRow, SessionInfo, Store
from prsm_core.store.sqlite import SqliteStore
from prsm_core.store.writer import closed_error

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from prsm_core.domain.events import Event
    from prsm_core.domain.messages import RoutedMessage
    from prsm_core.domain.steps import Committed, HumanRequest, Step


class LateStore(Store):
    """A SqliteStore from its first step on, until then an empty one without a file.

    Made by `LateStore.open`; also an async context manager.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._ledger: SqliteStore | None = None
        self._closed = False
        self._settled = asyncio.Event()  # the ledger is open, or never will be
        self._turn = asyncio.Lock()  # fair, hence steps stay in the order they were given in

    @classmethod
    async def open(cls, path: Path) -> Self:
        """Open the ledger at `path` if there is one; its folder need not exist either.

        Raises what SqliteStore.open does; so does, where there is none, the first step.
        """
        store = cls(path)
        if store._lies_there():
            await store._made()
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
        """Apply a step; see SqliteStore."""
        return await (await self._made()).commit(step)

    async def append(self, events: Sequence[Event]) -> tuple[Event, ...]:
        """Append events that no step causes."""
        return await (await self._made()).append(events)

    async def events(
        self, session_id: str, after: int = 0, *, follow: bool = False, agent: str | None = None
    ) -> AsyncIterator[Event]:
        """Yield the session's events after `after`; with `follow` until the store is closed."""
        if self._closed:
            raise closed_error()
        if follow:
            await self._settled.wait()
        if self._ledger is not None:
            async for event in self._ledger.events(session_id, after, follow=follow, agent=agent):
                yield event

    async def sessions(self) -> Sequence[SessionInfo]:
        """Return all sessions, newest first."""
        ledger = self._readable()
        return () if ledger is None else await ledger.sessions()

    async def agents(self, session_id: str) -> Sequence[AgentRow]:
        """Return the session's agents in order of creation."""
        ledger = self._readable()
        return () if ledger is None else await ledger.agents(session_id)

    async def inbox(self, session_id: str) -> Sequence[RoutedMessage]:
        """Return the messages that the present incarnations have not consumed."""
        ledger = self._readable()
        return () if ledger is None else await ledger.inbox(session_id)

    async def open_requests(self, session_id: str) -> Sequence[HumanRequest]:
        """Return the requests nobody has answered, oldest first."""
        ledger = self._readable()
        return () if ledger is None else await ledger.open_requests(session_id)

    async def calls(self, agent_id: str) -> Sequence[Mapping[str, Any]]:
        """Return the agent's tool calls."""
        ledger = self._readable()
        return () if ledger is None else await ledger.calls(agent_id)

    async def aclose(self) -> None:
        """Finish what was submitted, end the followers, close; a second call does nothing."""
        self._closed = True
        async with self._turn:  # an opening that is under way
            self._settled.set()
        if self._ledger is not None:
            await self._ledger.aclose()

    def _lies_there(self) -> bool:
        return self._path.exists()

    async def _made(self) -> SqliteStore:
        async with self._turn:
            if self._ledger is None:
                if self._closed:
                    raise closed_error()
                private_dir(self._path.parent)
                self._ledger = await SqliteStore.open(self._path)
                self._settled.set()
            return self._ledger

    def _readable(self) -> SqliteStore | None:
        if self._ledger is None and self._closed:
            raise closed_error()
        return self._ledger
