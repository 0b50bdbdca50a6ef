"""Starting programs: few of a vendor's processes start at one time.

A vendor's program needs more than one core until it is ready. Eight that start together on two
cores take a quarter more CPU than in turns and the memory of eight starts at once, and they are
ready no sooner.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prsm_core.interfaces.clock import Clock

LONGEST_SECONDS = 3.0


class Start:
    """A turn to start, which ends once. One that takes too long waits for no core, and ends."""

    __slots__ = ("_free", "_timer")

    def __init__(self, free: asyncio.Semaphore, clock: Clock) -> None:
        self._free: asyncio.Semaphore | None = free
        self._timer = clock.call_later(LONGEST_SECONDS, self.end)

    def end(self) -> None:
        """Let the next one start; no-op if this turn has ended."""
        free, self._free = self._free, None
        if free is not None:
            self._timer.cancel()
            free.release()


class Starts:
    """Owns the turns: half as many at one time as there are cores."""

    def __init__(self, clock: Clock, at_once: int | None = None) -> None:
        self._clock = clock
        self._free = asyncio.Semaphore(at_once or max(1, _cores() // 2))

    async def begin(self) -> Start:
        """Wait for a turn."""
        await self._free.acquire()
        return Start(self._free, self._clock)


def _cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
