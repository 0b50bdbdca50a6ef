"""One running turn: its bounded queue of events, what it is asked meanwhile, and how it ends."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from prsm_core import (
    ProviderEvent,
    TurnEnded,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from prsm_core import (
        BackgroundTask,
        ProviderServices,
    )

_MAX_EVENTS = 1000  # then the agent waits for the reader


class Turn:
    """State of one turn; the session decides, this keeps."""

    def __init__(self, services: ProviderServices) -> None:
        self._services = services
        self._events: asyncio.Queue[ProviderEvent] = asyncio.Queue(_MAX_EVENTS)
        self._left = False
        self._work: dict[asyncio.Future[Any], BackgroundTask] = {}
        self.over = asyncio.Event()  # TurnEnded is in the queue
        self.sent = False  # the vendor may know of the turn
        self.cancelled = False  # the vendor was told that it is not wanted any more

    @property
    def is_open(self) -> bool:
        """Whether the vendor may still ask something of the turn."""
        return not (self.over.is_set() or self.cancelled)

    async def put(self, events: Iterable[ProviderEvent]) -> None:
        """Queue events; wait while the reader is behind. What follows the end is dropped."""
        for event in events:
            if self.over.is_set():
                return
            if isinstance(event, TurnEnded):
                self.over.set()
                self.drop_work()
            if not self._left:
                await self._events.put(event)

    async def next(self) -> ProviderEvent:
        """Return the next event."""
        return await self._events.get()

    def leave(self) -> None:
        """Read no further; nobody waits for the queue from now on."""
        self._left = True
        while not self._events.empty():
            self._events.get_nowait()

    async def answer(self, work: Callable[[], Awaitable[Any]], otherwise: Any, name: str) -> Any:
        """Return what `work()` gives, or `otherwise` as soon as the turn is not wanted any more."""
        if not self.is_open:
            return otherwise
        given: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        task = self._services.start_soon(_fulfil, given, work, name=name)
        self._work[given] = task
        try:
            found = await given
        finally:
            self._work.pop(given, None)
            task.cancel()
        return otherwise if found is _DROPPED else found

    def drop_work(self) -> None:
        """End whoever works for a turn that is over: the vendor does not say so."""
        for given, task in self._work.items():
            if not given.done():
                given.set_result(_DROPPED)
            task.cancel()


_DROPPED = object()


async def _fulfil(given: asyncio.Future[Any], work: Callable[[], Awaitable[Any]]) -> None:
    try:
        result = await work()
    except Exception as error:  # noqa: BLE001 - told to the one who waits for it
        if not given.done():
            given.set_exception(error)
    else:
        if not given.done():
            given.set_result(result)
