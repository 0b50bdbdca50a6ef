"""detect: from the last wait's beginning to the deadlock that is told of it, without the sweep."""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.harness import Finding
from benchmarks.team import DONE, open_team
from prsm_core.kit.clocks import SystemClock
from prsm_core.messaging.deadlock import SWEEP_SECONDS
from prsm_core.store import SqliteStore

if TYPE_CHECKING:
    from benchmarks.harness import Plan
    from benchmarks.team import Calls
    from prsm_core.domain.events import Event

CHILDREN = (1, 100)
GOAL_MS = 10.0


class NoSweepClock(SystemClock):
    """Real time in which nothing that comes every few seconds ever comes."""

    async def sleep(self, seconds: float) -> None:
        """Sleep, or for ever if it is as long as the sweep's pause."""
        if seconds >= SWEEP_SECONDS:
            await asyncio.Event().wait()
        await super().sleep(seconds)


def measure(plan: Plan) -> list[Finding]:
    """Let a master and its children wait for messages that nobody is left to send."""
    return [
        Finding(
            benchmark="detect",
            case=f"{children} children and their master",
            unit="ms",
            value=median(asyncio.run(delay_ms(children)) for _ in range(plan.pairs)),
            goal=GOAL_MS,
        )
        for children in CHILDREN
    ]


async def delay_ms(children: int) -> float:
    """Return the wall milliseconds from the last wait's beginning to `deadlock_detected`.

    The ledger is on disk, as in every run: an event is told once it is there.
    """
    began: list[float] = []
    told: list[float] = []

    def behave(prompt: str) -> Calls:
        waits = 1
        if prompt == "lead":
            prompts = [{"prompt": "wait"}] * children
            yield "spawn_children_parallel", {"children": prompts}
            waits = children  # each knot costs one of them its life
        while waits > 0:
            if not told:
                began.append(time.perf_counter())
            answer = yield "wait_for_message", {}
            waits -= 1 + len(answer.get("others", ()))
        yield DONE

    def note(events: tuple[Event, ...]) -> None:
        if not told and any(event.type == "deadlock_detected" for event in events):
            told.append(time.perf_counter())

    with tempfile.TemporaryDirectory() as folder:
        store = await SqliteStore.open(Path(folder) / "ledger.db")
        async with store, open_team(behave, store=store, clock=NoSweepClock()) as team:
            team.engine.feed.add_tap(note)
            await team.run()
    return 1000 * (told[0] - began[-1])
