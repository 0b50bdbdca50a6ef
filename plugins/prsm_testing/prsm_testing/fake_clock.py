"""FakeClock: time that moves only when nothing else can.

A sleep on it takes no time at all: as soon as the event loop has nothing left to run, the clock
jumps to the next sleeper. It cannot see work outside the loop (a thread, a process, the network):
wrap such work in `hold`, and time stands still meanwhile.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prsm_core.interfaces.clock import Timer

_WALL_START = 1_700_000_000.0  # Unix seconds at time zero


class FakeClock:
    """A Clock with virtual time, for the standard event loop.

    With `autojump` it moves by itself, without it only by `advance`. `on_jump(due)` is called
    whenever nothing else can run, before the time becomes `due`.
    """

    def __init__(
        self, *, autojump: bool = True, on_jump: Callable[[float], None] | None = None
    ) -> None:
        self._autojump = autojump
        self._on_jump = on_jump
        self._now = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []  # a heap
        self._order = itertools.count()
        self._holds = 0
        self._released: asyncio.Future[None] | None = None  # somebody waits for the end of a hold
        self._watch: asyncio.Handle | None = None

    def now(self) -> float:
        """Return monotonic seconds; a new clock begins at 0."""
        return self._now

    def time(self) -> float:
        """Return Unix seconds."""
        return _WALL_START + self._now

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds` of virtual time."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        await self._wake(seconds)

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        """Call after `seconds` of virtual time."""
        woken = self._wake(max(seconds, 0.0))
        woken.add_done_callback(lambda due: due.cancelled() or callback())
        return woken

    def _wake(self, seconds: float) -> asyncio.Future[None]:
        woken = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + seconds, next(self._order), woken))
        self._watch_loop()
        return woken

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Keep time still while something works outside the event loop."""
        self._holds += 1
        try:
            yield
        finally:
            self._holds -= 1
            if self._released is not None and not self._released.done():
                self._released.set_result(None)
            self._watch_loop()

    async def advance(self, seconds: float) -> None:
        """Let everything run that can, then move on, waking each sleeper at its own time."""
        end = self._now + seconds
        with self.hold():
            await self._settle()
            while (due := self._next()) is not None and due <= end:
                self._jump(due)
                await self._settle()
            self._now = end

    async def _settle(self) -> None:
        """Return once nothing runs and nobody else holds the time."""
        while True:
            if self._holds > 1:
                self._released = asyncio.get_running_loop().create_future()
                await self._released
            elif _is_idle():
                return
            else:
                await asyncio.sleep(0)

    def _watch_loop(self) -> None:
        if self._autojump and self._watch is None and self._sleepers and not self._holds:
            self._watch = asyncio.get_running_loop().call_soon(self._look)

    def _look(self) -> None:
        """Jump if this is all the loop has to do; look again as long as someone sleeps."""
        self._watch = None
        due = self._next()
        if due is None or self._holds:
            return
        if _is_idle():
            self._jump(due)
        self._watch_loop()

    def _next(self) -> float | None:
        """Return when the next sleeper wakes; those that were cancelled are forgotten."""
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)
        return self._sleepers[0][0] if self._sleepers else None

    def _jump(self, due: float) -> None:
        if self._on_jump is not None:
            self._on_jump(due)
        self._now = due
        while self._sleepers and self._sleepers[0][0] <= due:
            woken = heapq.heappop(self._sleepers)[2]
            if not woken.done():
                woken.set_result(None)


def _is_idle() -> bool:
    """Return whether the running callback is all there is to do.

    asyncio has no public word for it; every loop of the standard library keeps this queue.
    """
    return not getattr(asyncio.get_running_loop(), "_ready")  # noqa: B009 - a private name
