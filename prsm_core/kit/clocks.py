"""The system's clock, and a wait that ends by a clock."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from prsm_core.kit.deadlines import expiring

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from prsm_core.interfaces.clock import Clock, Timer


class SystemClock:
    """The Clock of a real run."""

    now = staticmethod(time.monotonic)  # asked hundreds of times a turn: no call between
    time = staticmethod(time.time)

    async def sleep(self, seconds: float) -> None:
        """Sleep on the running loop."""
        await asyncio.sleep(seconds)

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        """Let the running loop call."""
        return asyncio.get_running_loop().call_later(seconds, callback)


async def first_of(
    clock: Clock, seconds: float | None, wait: Callable[[], Awaitable[object]]
) -> bool:
    """Await `wait()` for at most `seconds` of the clock; return whether it ended in time.

    None means no deadline. What came too late is cancelled and has ended when this returns. An
    error of `wait()` is raised as it is, a TimeoutError of its own too.
    """
    if seconds is None:
        await wait()
        return True
    scope: asyncio.Timeout | None = None
    try:
        async with expiring(clock, seconds) as scope:
            await wait()
    except TimeoutError:
        if scope is None or not scope.expired():
            raise
        return False
    return True
