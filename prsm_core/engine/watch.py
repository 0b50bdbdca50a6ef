"""The watch: looks at the clocks of all open turns, each when something may have run out.

One task does it for every turn, so that an agent that waits costs no task more.
"""

from __future__ import annotations

import heapq
import itertools
import math
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio

    from prsm_core.engine.background import Background
    from prsm_core.interfaces.clock import Clock

_MARGIN_SECONDS = 0.001  # a clock that is asked too early has not run out yet


class Watched(Protocol):
    """What can be watched: a turn."""

    def look_in(self) -> float:
        """Return the seconds until it is worth to look again."""
        ...

    def look(self) -> bool:
        """Act on what has run out; return whether to look again."""
        ...


class TurnWatch:
    """Owns the task that sleeps until the next look, as long as one is due."""

    def __init__(self, clock: Clock, background: Background) -> None:
        self._clock = clock
        self._background = background
        self._watched: dict[int, Watched] = {}
        self._due: list[tuple[float, int]] = []  # a heap; also of turns that are over
        self._numbers = itertools.count()
        self._task: asyncio.Task[None] | None = None
        self._wakes_at = math.inf

    def add(self, turn: Watched) -> int:
        """Look at a turn from now on; returns what `discard` needs."""
        number = next(self._numbers)
        self._watched[number] = turn
        self._plan(number, turn)
        if self._due[0][0] < self._wakes_at:
            self._arm()
        return number

    def discard(self, number: int) -> None:
        """Look at a turn no more."""
        self._watched.pop(number, None)

    def _plan(self, number: int, turn: Watched) -> None:
        due = self._clock.now() + turn.look_in() + _MARGIN_SECONDS
        heapq.heappush(self._due, (due, number))

    def _arm(self) -> None:
        """Wake when the first look is due."""
        if self._task is not None:
            self._task.cancel()
        self._task, self._wakes_at = None, math.inf
        if self._due:
            self._wakes_at = self._due[0][0]
            self._task = self._background.start(self._wake(), name="turn watch")

    async def _wake(self) -> None:
        await self._clock.sleep(self._wakes_at - self._clock.now())
        self._task = None
        try:
            self._look(self._clock.now())
        finally:  # if a look fails, the other turns are watched all the same
            self._arm()

    def _look(self, now: float) -> None:
        while self._due and self._due[0][0] <= now:
            _, number = heapq.heappop(self._due)
            turn = self._watched.get(number)
            if turn is None:
                continue
            if turn.look():
                self._plan(number, turn)
            else:
                self.discard(number)
