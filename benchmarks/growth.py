"""growth: what a run costs in an old session, and a child that was reused often."""

from __future__ import annotations

import asyncio
import gc
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.harness import Finding, compared
from benchmarks.team import DONE, open_team
from prsm_core.store import SqliteStore

if TYPE_CHECKING:
    from benchmarks.harness import Plan
    from benchmarks.team import Behave, Calls

EARLY, LATE, AROUND = 125, 1000, 25  # runs, and how many of them are measured
GOAL_RUN = 1.1
FEW, MANY = 150, 600  # tasks of one child
GOAL_REUSE = 5.0
PAIRS = 3  # each takes long


def measure(plan: Plan) -> list[Finding]:
    """Compare a late run with an early one, and many tasks of a child with few."""
    early, late = asyncio.run(run_costs(plan.count(EARLY), plan.count(LATE)))
    few, many = plan.count(FEW), plan.count(MANY)
    return [
        Finding(
            benchmark="growth",
            case=f"run {plan.count(LATE)} of a session",
            unit="µs",
            value=1e6 * late,
            reference=1e6 * early,
            ratio=late / early,
            goal=GOAL_RUN,
        ),
        compared(
            "growth",
            f"a child reused {many} times",
            lambda: 1e6 * asyncio.run(reuse_cost(many)),
            lambda: 1e6 * asyncio.run(reuse_cost(few)),
            type(plan)(pairs=min(plan.pairs, PAIRS), scale=plan.scale),
            goal=GOAL_REUSE,
        ),
    ]


async def run_costs(early: int, late: int) -> tuple[float, float]:
    """Return the CPU seconds of a run: the medians of some up to each of two numbers."""

    def once(_: str) -> Calls:
        yield DONE

    costs = []
    with tempfile.TemporaryDirectory() as folder:
        async with (
            await SqliteStore.open(Path(folder) / "ledger.db") as store,
            open_team(once, store=store) as team,
        ):
            for number in range(late):
                begin = time.process_time()
                await team.run(f"task {number}")
                costs.append(time.process_time() - begin)
    return tuple(median(costs[max(0, end - AROUND) : end]) for end in (early, late))  # type: ignore[return-value]


async def reuse_cost(count: int) -> float:
    """Return the CPU seconds of a run whose master gives one child so many tasks."""
    with tempfile.TemporaryDirectory() as folder:
        async with (
            await SqliteStore.open(Path(folder) / "ledger.db") as store,
            open_team(reusing(count), store=store) as team,
        ):
            gc.collect()
            begin = time.process_time()
            await team.run()
            return time.process_time() - begin


def reusing(count: int) -> Behave:
    """Return a master that gives its only child one task after the other."""

    def behave(prompt: str) -> Calls:
        if prompt == "lead":
            for number in range(count):
                yield "spawn_child", {"prompt": f"task {number}", "wait": True}
        yield DONE

    return behave
