"""Real time that a test lets run faster once what it waits for has begun."""

from __future__ import annotations

import asyncio
import time


class RushClock:
    """A Clock; processes are started in real time, and then waits of minutes pass in moments."""

    def __init__(self) -> None:
        self._since = time.monotonic()
        self._passed = 0.0  # until `_since`
        self._speed = 1.0
        self._changed = asyncio.Event()

    def now(self) -> float:
        return self._passed + (time.monotonic() - self._since) * self._speed

    def time(self) -> float:
        return time.time()

    async def sleep(self, seconds: float) -> None:
        end = self.now() + seconds
        while (left := end - self.now()) > 0:
            try:
                async with asyncio.timeout(left / self._speed):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def rush(self, speed: float) -> None:
        """Let time pass `speed` times as fast from now on."""
        self._passed, self._since = self.now(), time.monotonic()
        self._speed = speed
        self._changed.set()
        self._changed = asyncio.Event()
