"""Who asks something of the owner of a session, which may end once nobody has for a while."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING

from prsm_core.kit.clocks import first_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prsm_core.interfaces.clock import Clock


class Visits:
    """Counts the requests that are under way; who follows something is one until it leaves."""

    def __init__(self) -> None:
        self._count = 0
        self._changed = asyncio.Event()

    @contextmanager
    def visit(self) -> Iterator[None]:
        """Count a request for as long as it is under way."""
        self._count += 1
        self._changed.set()
        try:
            yield
        finally:
            self._count -= 1
            self._changed.set()

    async def none_for(self, clock: Clock, seconds: float) -> None:
        """Return once no request has been under way for so long."""
        while True:
            self._changed.clear()
            if self._count:
                await self._changed.wait()
            elif not await first_of(clock, seconds, self._changed.wait):
                return
