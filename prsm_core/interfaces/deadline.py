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
    async with asyncio.timeout(None) as scope:
        timer = services.start_soon(_expire, services.clock, seconds, scope, name="deadline")
        try:
            yield
        finally:
            timer.cancel()


async def _expire(clock: Clock, seconds: float, scope: asyncio.Timeout) -> None:
    await clock.sleep(seconds)
    scope.reschedule(asyncio.get_running_loop().time())
