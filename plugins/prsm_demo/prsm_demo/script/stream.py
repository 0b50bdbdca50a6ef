"""Hands the events of one turn from those who make them to the one who reads them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from prsm_core import TurnEnded

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from prsm_core import ProviderEvent

_ROOM = 64  # events; whoever tells one waits until it was taken


class EventStream:
    """One turn's events, in lock step; its end comes once, whoever brings it about."""

    def __init__(self) -> None:
        self._events: asyncio.Queue[ProviderEvent | Exception] = asyncio.Queue(_ROOM)
        self._has_ended = False

    async def tell(self, event: ProviderEvent) -> None:
        """Return once the reader has taken the event and come back for the next one."""
        await self._events.put(event)
        await self._events.join()

    def end(self, how: TurnEnded | Exception) -> None:
        """End the stream, or make it raise; what was not read yet is dropped."""
        if self._has_ended:
            return
        self._has_ended = True
        while not self._events.empty():
            self._events.get_nowait()
        self._events.put_nowait(how)

    async def read(self) -> AsyncIterator[ProviderEvent]:
        """Yield the events up to the end."""
        while True:
            event = await self._events.get()
            if isinstance(event, Exception):
                raise event
            yield event
            if isinstance(event, TurnEnded):
                return
            self._events.task_done()
