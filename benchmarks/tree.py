"""tree: a master with 3 children with 10 children each, every result collected."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.harness import compared
from benchmarks.reference import ReferenceEngine, reference_cost
from benchmarks.team import DONE, collect, run_cost

if TYPE_CHECKING:
    from benchmarks.harness import Finding, Plan
    from benchmarks.reference import Behave as PlainBehave
    from benchmarks.team import Behave, Calls

BRANCHES, LEAVES = 3, 10
TREES = 8  # of one measurement: a single tree is too short to time
GOAL = 7.0


def measure(plan: Plan) -> list[Finding]:
    """Compare the cost of an agent in such a tree."""
    trees, agents = plan.count(TREES), 1 + BRANCHES + BRANCHES * LEAVES
    return [
        compared(
            "tree",
            f"{BRANCHES}x{LEAVES} tree, per agent",
            lambda: 1e6 * sum(run_cost(fan_out()) for _ in range(trees)) / trees / agents,
            lambda: 1e6 * sum(plain_cost() for _ in range(trees)) / trees / agents,
            plan,
            goal=GOAL,
        )
    ]


def fan_out() -> Behave:
    """A prompt says how many children each agent below has, level by level."""

    def behave(prompt: str) -> Calls:
        prompt = f"{BRANCHES} {LEAVES}" if prompt == "lead" else prompt
        first, _, rest = prompt.partition(" ")
        width = int(first)
        if width:
            children = [{"prompt": rest or "0"}] * width
            yield "spawn_children_parallel", {"children": children}
            yield from collect(width)
        yield DONE

    return behave


def plain_cost() -> float:
    """Return the CPU seconds of the reference."""

    def parent_of(width: int, child: PlainBehave) -> PlainBehave:
        async def behave(engine: ReferenceEngine, agent: str) -> str:
            for _ in range(width):
                engine.spawn(child, agent)
            for _ in range(width):
                await engine.receive(agent)
            return "done"

        return behave

    async def leaf(_engine: ReferenceEngine, _agent: str) -> str:
        return "done"

    return reference_cost(parent_of(BRANCHES, parent_of(LEAVES, leaf)))
