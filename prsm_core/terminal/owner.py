"""The process that runs a session, as a second terminal asks it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from prsm_core.domain.usage import Spent
from prsm_core.errors import ControlError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from prsm_core.domain.events import Event
    from prsm_core.domain.permissions import Answer
    from prsm_core.engine.control.client import ControlClient
    from prsm_core.interfaces.store import SessionInfo, Store

T = TypeVar("T")

BEAT_SECONDS = 1.0  # between two signs that somebody is there
# Codes of errors: the owner of a session has ended, or is about to.
GONE = frozenset({"no_answer", "no_owner", "closing"})


class SessionOwner:
    """The owner of a session, asked one thing at a time, as long as it is there.

    session: The id of the session.
    task: Of its first run, as the person wrote it.
    """

    def __init__(self, client: ControlClient, store: Store, info: SessionInfo) -> None:
        self.session = info.session_id
        self.task = info.task
        self._client = client
        self._store = store
        self._turn = asyncio.Lock()

    def events(self, after: int = 0, *, follow: bool = False) -> AsyncIterator[Event]:
        """Yield the session's events, also when its owner has gone; see `Store.events`."""
        return self._store.events(self.session, after, follow=follow)

    async def resolve(self, request: str, verdict: str) -> bool:
        """Answer a permission request; see Requests."""
        given = await self._while_there(lambda: self._client.requests.resolve(request, verdict))
        return bool(given)

    async def answer(self, request: str, answer: Answer) -> bool:
        """Answer a question; see Requests."""
        return bool(await self._while_there(lambda: self._client.requests.answer(request, answer)))

    async def prompt(self, agent: str, text: str, delivery: str = "queue") -> str:
        """Send a prompt to an agent; see Agents."""
        async with self._turn:
            return await self._client.agents.prompt(agent, text, delivery)

    async def open_requests(self) -> set[str]:
        """Return the ids of what waits for an answer; with its owner a session's requests end."""
        requests = await self._while_there(self._client.requests.open)
        return {request.request for request in requests or ()}

    async def spent(self) -> Spent:
        """Return what the agents have used so far; nothing where the owner does not tell it."""
        tree = await self._while_there(self._client.agents.tree)
        return Spent() if tree is None else tree.spent.as_spent

    async def until_gone(self, *, attending: bool) -> None:
        """Tell the owner now and again that a person is there; return once it has ended."""
        sign = self._client.requests.attend if attending else self._client.ping
        while True:
            if not await self._while_there(lambda: _done(sign)):
                return
            await asyncio.sleep(BEAT_SECONDS)

    async def _while_there(self, ask: Callable[[], Awaitable[T]]) -> T | None:
        """Ask the owner; None once it has ended, which it may at any moment."""
        try:
            async with self._turn:
                return await ask()
        except ControlError as error:
            if error.code not in GONE:
                raise
            return None


async def _done(work: Callable[[], Awaitable[object]]) -> bool:
    await work()
    return True
