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

    from prsm_core.interfaces.clock import Clock
    from prsm_core.kit.background import Background

_MARGIN_SECONDS = 0.001  # a clock that is asked too early has not run out yet
_SLACK = 64  # looks in the heap that no plan names, beside as many as there are turns


class Watched(Protocol):
    """What can be watched: a turn."""

    def look_in(self) -> float:
        """Return the seconds until it is worth looking again."""
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
        self._planned: dict[int, float] = {}  # by turn: when to look at it next
        self._due: list[tuple[float, int]] = []  # a heap; also of looks that no plan names
        self._numbers = itertools.count()
        self._task: asyncio.Task[None] | None = None
        self._wakes_at = math.inf

    def add(self, turn: Watched, soonest: float) -> int:
        """Look at a turn from now on; returns what `hurry` and `discard` need.

        Nothing of it matters before so many seconds: it need not be asked now.
        """
        number = next(self._numbers)
        self._watched[number] = turn
        self._plan(number, soonest)
        self._arm_for(number)
        return number

    def hurry(self, number: int, soonest: float = 0.0) -> None:
        """Ask a turn again when to look at it: it may be sooner than it said.

        What has changed matters in `soonest` seconds at the earliest. Mostly the next look comes
        before that, and the turn need not be asked.
        """
        planned, now = self._planned.get(number), self._clock.now()
        if planned is None or planned <= now + soonest + _MARGIN_SECONDS:
            return
        seconds = self._watched[number].look_in()
        if now + seconds + _MARGIN_SECONDS < planned:
            self._plan(number, seconds)
            self._arm_for(number)

    def discard(self, number: int) -> None:
        """Look at a turn no more."""
        self._watched.pop(number, None)
        self._planned.pop(number, None)

    def _plan(self, number: int, seconds: float) -> None:
        due = self._planned[number] = self._clock.now() + seconds + _MARGIN_SECONDS
        heapq.heappush(self._due, (due, number))
        if len(self._due) > 2 * len(self._planned) + _SLACK:
            self._due = [(due, number) for number, due in self._planned.items()]
            heapq.heapify(self._due)

    def _arm_for(self, number: int) -> None:
        if self._planned[number] < self._wakes_at:
            self._arm()

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
            due, number = heapq.heappop(self._due)
            if self._planned.get(number) != due:
                continue
            turn = self._watched[number]
            if turn.look():
                self._plan(number, turn.look_in())
            else:
                self.discard(number)
