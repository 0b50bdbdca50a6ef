"""ask: a child asks its parent, the parent answers, again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.autogen import beside_autogen
from benchmarks.commits import commits
from benchmarks.harness import compared
from benchmarks.reference import ReferenceEngine, reference_cost
from benchmarks.team import DONE, run_cost

if TYPE_CHECKING:
    from benchmarks.harness import Absent, Finding, Plan
    from benchmarks.team import Behave, Calls

QUESTIONS = 300
GOAL = 5.0
GOAL_COMMITS = 6.0


def measure(plan: Plan) -> list[Finding | Absent]:
    """Compare ask_parent, wait_for_message, respond_to_child with two queues."""
    count = plan.count(QUESTIONS)

    def ours() -> float:
        return 1e6 * run_cost(dialogue(count)) / count

    found = compared(
        "ask",
        f"{count} questions and answers",
        ours,
        lambda: 1e6 * plain_cost(count) / count,
        plan,
        goal=GOAL,
    )
    written = commits("ask", "commits of a question and answer", dialogue, GOAL_COMMITS)
    return [found, written, beside_autogen("ask", ours, plan, children=1, questions=count)]


def dialogue(count: int) -> Behave:
    """The master answers its only child until that has no question left."""

    def master() -> Calls:
        yield "spawn_child", {"prompt": "ask", "name": "child"}
        while (message := (yield "wait_for_message", {}))["type"] == "question":
            correlation_id = message["correlation_id"]
            answer = {"child_id": "child", "correlation_id": correlation_id, "response": "this"}
            yield "respond_to_child", answer

    def behave(prompt: str) -> Calls:
        if prompt == "ask":
            for number in range(count):  # the same question again and again is a stuck agent's
                yield "ask_parent", {"question": f"which one, {number}?"}
        else:
            yield from master()
        yield DONE

    return behave


def plain_cost(count: int) -> float:
    """Return the CPU seconds of the reference."""

    async def child(engine: ReferenceEngine, agent: str) -> str:
        for _ in range(count):
            await engine.ask(agent, "which one?")
        return "done"

    async def master(engine: ReferenceEngine, agent: str) -> str:
        engine.spawn(child, agent)
        while (message := await engine.receive(agent))["type"] == "question":
            engine.respond(message["from"], "this")
        return "done"

    return reference_cost(master)
