"""How many times the engine writes to its store for a scenario; time stands still meanwhile."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from prsm_testing.fake_clock import FakeClock
from prsm_testing.memory_store import MemoryStore

from benchmarks.harness import Finding
from benchmarks.team import open_team

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.team import Behave
    from prsm_core.domain.events import Event
    from prsm_core.domain.steps import Committed, Step

FEW, MORE = 3, 13


class CountingStore(MemoryStore):
    """Owns what was written: a tuple of events for each commit, or batch of facts."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[tuple[Event, ...]] = []

    async def commit(self, step: Step) -> Committed:
        """Commit a step and note its events."""
        committed = await super().commit(step)
        self.written.append(committed.events)
        return committed

    async def append(self, events: Sequence[Event]) -> tuple[Event, ...]:
        """Append facts and note them."""
        numbered = await super().append(events)
        self.written.append(numbered)
        return numbered


def written_by(behave: Behave) -> list[tuple[Event, ...]]:
    """Return what a run writes, in order."""

    async def run() -> list[tuple[Event, ...]]:
        store = CountingStore()
        async with open_team(behave, store=store, clock=FakeClock()) as team:
            await team.run()
        return store.written

    return asyncio.run(run())


def commits(benchmark: str, case: str, scenario: Callable[[int], Behave], goal: float) -> Finding:
    """Tell how many commits one more of what a scenario counts costs."""
    few, more = (len(written_by(scenario(count))) for count in (FEW, MORE))
    value = (more - few) / (MORE - FEW)
    return Finding(benchmark=benchmark, case=case, unit="commits", value=value, goal=goal)
