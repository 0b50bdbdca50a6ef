"""RushClock: real time that a test lets run faster once what it waits for has begun."""

from __future__ import annotations

import asyncio
import math
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from prsm_core.interfaces.clock import Timer


class RushClock:
    """A Clock; processes are started in real time, and then waits of minutes pass in moments."""

    def __init__(self) -> None:
        self._since = time.monotonic()
        self._passed = 0.0  # until `_since`
        self._speed = 1.0
        self._until = math.inf  # then `_then` is the speed
        self._then = 1.0
        self._changed = asyncio.Event()
        self._calls: set[asyncio.Task[None]] = set()

    def now(self) -> float:
        """Return the seconds that have passed on this clock."""
        real = time.monotonic() - self._since
        rushed = self._passed + real * self._speed
        if rushed <= self._until:
            return rushed
        return self._until + (real - (self._until - self._passed) / self._speed) * self._then

    def time(self) -> float:
        """Return Unix seconds, as the system has them."""
        return time.time()

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds` on this clock."""
        end = self.now() + seconds
        while self.now() < end:
            try:
                async with asyncio.timeout(self._real_seconds_to(end)):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        """Call after `seconds` on this clock."""

        async def call() -> None:
            await self.sleep(seconds)
            callback()

        task = asyncio.get_running_loop().create_task(call())
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)
        return task

    def rush(self, speed: float, *, seconds: float = math.inf, then: float = 1.0) -> None:
        """Let time pass `speed` times as fast for `seconds` on this clock, `then` times after."""
        self._passed, self._since = self.now(), time.monotonic()
        self._speed, self._then = speed, then
        self._until = self._passed + seconds
        self._changed.set()
        self._changed = asyncio.Event()

    def _real_seconds_to(self, end: float) -> float:
        now = self.now()
        rushed = max(0.0, min(end, self._until) - now) / self._speed
        return rushed + max(0.0, end - max(now, self._until)) / self._then
