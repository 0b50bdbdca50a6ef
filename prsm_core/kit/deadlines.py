"""Deadlines by the engine's clock, for what a provider waits for."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from prsm_core.interfaces.clock import Clock
    from prsm_core.interfaces.provider import ProviderServices


@asynccontextmanager
async def deadline(services: ProviderServices, seconds: float) -> AsyncIterator[None]:
    """Cancel the body after `seconds` of the engine's clock; TimeoutError is raised then."""
    async with expiring(services.clock, seconds):
        yield


@asynccontextmanager
async def expiring(clock: Clock, seconds: float) -> AsyncIterator[asyncio.Timeout]:
    """Do as `deadline` does; what it gives tells whether it was this that expired."""
    is_over = False

    def expire() -> None:
        if not is_over:
            scope.reschedule(asyncio.get_running_loop().time())

    async with asyncio.timeout(None) as scope:
        timer = clock.call_later(seconds, expire)
        try:
            yield scope
        finally:
            is_over = True
            timer.cancel()
