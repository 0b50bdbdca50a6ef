"""The system's clock, and a wait that ends by a clock."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from prsm_core.interfaces.clock import Clock, Timer


class SystemClock:
    """The Clock of a real run."""

    def now(self) -> float:
        """Return monotonic seconds."""
        return time.monotonic()

    def time(self) -> float:
        """Return Unix seconds."""
        return time.time()

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

    None means no deadline. The loser is cancelled and has ended when this returns. An error of
    `wait()` is raised as it is.
    """
    if seconds is None:
        await wait()
        return True
    done = False

    async def run() -> None:
        nonlocal done
        await wait()
        done = True
        timer.cancel()

    async def sleep() -> None:
        await clock.sleep(seconds)
        runner.cancel()

    try:
        async with asyncio.TaskGroup() as group:
            runner = group.create_task(run())
            timer = group.create_task(sleep())
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return done
