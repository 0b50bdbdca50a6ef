"""The same scenario on autogen-core, where it is installed: agents that keep nothing on disk."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from typing import TYPE_CHECKING

from benchmarks.harness import Absent, Finding, compared

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.harness import Plan

GOAL = 1.5
PYTHON = "PRSM_AUTOGEN_PYTHON"  # the interpreter of an environment that has it
# A process of its own, so that it may be installed elsewhere; it tells the CPU time of the work.
PROGRAM = """
import asyncio, gc, sys, time
from dataclasses import dataclass
from autogen_core import (
    AgentId, MessageContext, RoutedAgent, SingleThreadedAgentRuntime, message_handler
)

@dataclass
class Lead:
    count: int

@dataclass
class Task:
    text: str

@dataclass
class Question:
    text: str

@dataclass
class Said:
    text: str

CHILDREN, QUESTIONS = (int(word) for word in sys.argv[1:])

class Child(RoutedAgent):
    @message_handler
    async def work(self, message: Task, ctx: MessageContext) -> Said:
        for number in range(QUESTIONS):
            await self.send_message(Question(f"which one, {number}?"), AgentId("master", "one"))
        return Said("done")

class Master(RoutedAgent):
    @message_handler
    async def lead(self, message: Lead, ctx: MessageContext) -> Said:
        sent = [self.send_message(Task("work"), AgentId("child", f"c{number}"))
                for number in range(message.count)]
        results = await asyncio.gather(*sent)
        if [result.text for result in results] != ["done"] * message.count:
            raise RuntimeError("some child has no result")
        return Said("done")

    @message_handler
    async def answer(self, message: Question, ctx: MessageContext) -> Said:
        return Said("this")

async def main():
    runtime = SingleThreadedAgentRuntime()
    await Child.register(runtime, "child", lambda: Child("works"))
    await Master.register(runtime, "master", lambda: Master("leads"))
    runtime.start()
    gc.collect()
    begin = time.process_time()
    await runtime.send_message(Lead(CHILDREN), AgentId("master", "one"))
    print(time.process_time() - begin)
    await runtime.stop()

asyncio.run(main())
"""


def beside_autogen(
    benchmark: str,
    subject: Callable[[], float],
    plan: Plan,
    *,
    children: int,
    questions: int = 0,
) -> Finding | Absent:
    """Compare the CPU µs of one child, or of one question where each asks some, with the peer's."""
    what = f"{children} children" if not questions else f"{questions} questions"
    case = f"{what}, beside autogen-core"
    python = _python()
    if python is None:
        why = f"autogen-core is not installed here, and {PYTHON} names no interpreter that has it"
        return Absent(benchmark=benchmark, case=case, why=why)

    def peer() -> float:
        argv = [python, "-c", PROGRAM, str(children), str(questions)]
        told = subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True).stdout
        return 1e6 * float(told) / (questions or children)

    return compared(benchmark, case, subject, peer, plan, goal=GOAL)


def _python() -> str | None:
    if importlib.util.find_spec("autogen_core") is not None:
        return sys.executable
    return os.environ.get(PYTHON)
