"""spawn: children spawned and finished, one after the other or by one call."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.autogen import beside_autogen
from benchmarks.commits import commits
from benchmarks.harness import compared
from benchmarks.reference import ReferenceEngine, reference_cost
from benchmarks.team import DONE, collect, run_cost

if TYPE_CHECKING:
    from benchmarks.harness import Absent, Finding, Plan
    from benchmarks.team import Behave, Calls

CHILDREN = 1000
GOAL = 10.0
FEW, MANY = 100, 10_000
GOAL_GROWTH = 2.5
GOAL_COMMITS = 6.0
GROWTH_PAIRS = 2  # each takes long


def measure(plan: Plan) -> list[Finding | Absent]:
    """Compare a child's whole life with that of a task in the reference."""
    count = plan.count(CHILDREN)
    cases = {"by a call each": one_by_one(count), "by one call": at_once(count)}
    found = [
        compared(
            "spawn",
            f"{count} children {case}",
            partial(_us_of_one, behave, count),
            lambda: 1e6 * plain_cost(count) / count,
            plan,
            goal=GOAL,
        )
        for case, behave in cases.items()
    ]
    few, many = plan.count(FEW), plan.count(MANY)
    growth = compared(
        "spawn",
        f"a child of {many} against one of {few}",
        partial(_us_of_one, at_once(many), many),
        partial(_us_of_one, at_once(few), few),
        replace(plan, pairs=min(plan.pairs, GROWTH_PAIRS)),
        goal=GOAL_GROWTH,
    )
    peer = beside_autogen("spawn", partial(_us_of_one, at_once(count), count), plan, children=count)
    written = [
        commits("spawn", "commits of a child, a call each", one_by_one, GOAL_COMMITS),
        commits("spawn", "commits of a child, by one call", at_once, GOAL_COMMITS),
    ]
    return [*found, growth, *written, peer]


def _us_of_one(behave: Behave, count: int) -> float:
    return 1e6 * run_cost(behave) / count


def one_by_one(count: int) -> Behave:
    """The master spawns each child by a call, then waits for each result."""

    def behave(prompt: str) -> Calls:
        if prompt == "lead":
            for number in range(count):
                yield "spawn_child", {"prompt": "work", "name": f"c{number}"}
            yield from collect(count)
        yield DONE

    return behave


def at_once(count: int) -> Behave:
    """The master spawns all children by one call, then waits for each result."""

    def behave(prompt: str) -> Calls:
        if prompt == "lead":
            children = [{"prompt": "work", "name": f"c{number}"} for number in range(count)]
            yield "spawn_children_parallel", {"children": children}
            yield from collect(count)
        yield DONE

    return behave


def plain_cost(count: int) -> float:
    """Return the CPU seconds of the reference."""

    async def child(_engine: ReferenceEngine, _agent: str) -> str:
        return "done"

    async def master(engine: ReferenceEngine, agent: str) -> str:
        for _ in range(count):
            engine.spawn(child, agent)
        for _ in range(count):
            await engine.receive(agent)
        return "done"

    return reference_cost(master)
