"""A session of this process, in the task that runs it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from prsm_core.errors import ControlError

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from prsm_core.interfaces.frontend import AppHandle


class Owned:
    """A session of this process, in the task that runs it."""

    def __init__(self, opening: AbstractAsyncContextManager[AppHandle]) -> None:
        self.leave = asyncio.Event()
        self.ended = asyncio.Event()
        self.is_open = False
        self.error: Exception | None = None
        self._opening = opening
        self._app: AppHandle | None = None
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Hold the session open until it is left."""
        try:
            async with self._opening as self._app:
                self.is_open = True
                self._changed.set()
                await self.leave.wait()
        except Exception as error:  # noqa: BLE001 - handed to whoever opened it
            self.error = error

    def note_end(self, _: object) -> None:
        """Note that the task has ended, which may be before it began."""
        self.ended.set()
        self._changed.set()

    async def app(self) -> AppHandle:
        """Return the session's handle once it is open; raises what keeps it from that."""
        await self._changed.wait()
        if self.error is not None:
            raise self.error
        if self._app is None:  # the task was cancelled: the hub is being left
            raise ControlError("the hub was closed before the session was open", code="hub_closed")
        return self._app
