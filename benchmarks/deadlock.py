"""deadlock: what a check of the wait graph costs at the moment an agent blocks."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import TYPE_CHECKING

from benchmarks.harness import Finding, compare, cpu_seconds
from prsm_core.messaging.waits import WaitFor, WaitGraph

if TYPE_CHECKING:
    from benchmarks.harness import Plan

    Blocks = list[tuple[str, WaitFor]]

SIZES = (1000, 10_000)
GOAL_US = 5.0
GOAL_VISITS = 8.0


def measure(plan: Plan) -> list[Finding]:
    """Block agents in several orders; beside it, what one search of everything costs."""
    return [
        finding
        for size in SIZES
        for case, blocks in shapes(plan.count(size) + 2).items()
        for finding in _measure_shape(f"{case}, {len(blocks)} agents", blocks, plan)
    ]


def shapes(count: int) -> dict[str, Blocks]:
    """Return who blocks on whom, in order; at the end somebody still runs.

    hub: children wait for a parent that runs. forward, backward, shuffled: the parent waits for
    any of its children, then all but one block on it. chain: each waits for the next.
    """
    children = [f"c{number}" for number in range(count)]
    on_hub = [(child, WaitFor(("hub",))) for child in children[:-1]]
    any_child = ("hub", WaitFor(tuple(children)))
    shuffled = random.Random(1).sample(on_hub, len(on_hub))  # noqa: S311 - an order, no secret
    return {
        "hub": on_hub,
        "forward": [any_child, *on_hub],
        "backward": [any_child, *reversed(on_hub)],
        "shuffled": [any_child, *shuffled],
        "chain": [(child, WaitFor((following,))) for child, following in pairwise(children)],
    }


def build(blocks: Blocks) -> WaitGraph:
    """Return a graph after all these blocks."""
    graph = WaitGraph(is_ready=lambda _agent, _wait: False, is_over=lambda _agent: False)
    for agent, wait in blocks:
        if graph.block(agent, (wait,)):
            raise RuntimeError("a knot where none is")
    return graph


def live_agents(blocks: Blocks) -> set[str]:
    """Return who can still move, by one search from everybody that runs; what a tick would do."""
    blocked = {agent for agent, _ in blocks}
    waiters: dict[str, list[str]] = {}
    for agent, wait in blocks:
        for target in wait.targets:
            waiters.setdefault(target, []).append(agent)
    live = waiters.keys() - blocked
    queue = list(live)
    while queue:
        for agent in waiters.get(queue.pop(), ()):
            if agent not in live:
                live.add(agent)
                queue.append(agent)
    return live


def _measure_shape(case: str, blocks: Blocks, plan: Plan) -> list[Finding]:
    visits = build(blocks).visits / len(blocks)
    block, search, _ = compare(
        lambda: 1e6 * cpu_seconds(lambda: build(blocks)) / len(blocks),
        lambda: 1e6 * cpu_seconds(lambda: live_agents(blocks)),
        plan.pairs,
    )
    return [
        Finding(
            benchmark="deadlock",
            case=f"{case}: a block",
            unit="µs",
            value=block,
            reference=search,
            goal=GOAL_US,
        ),
        Finding(
            benchmark="deadlock", case=f"{case}: visits", unit="", value=visits, goal=GOAL_VISITS
        ),
    ]
