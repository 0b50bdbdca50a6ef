"""The reference: a tree of agents in plain asyncio, with none of PRSM's promises.

One task and one queue per agent, dicts for the rest: no limits, no states, no ledger, no events.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable
from typing import Any

Behave = Callable[["ReferenceEngine", str], Awaitable[str]]
Message = dict[str, Any]


class ReferenceEngine:
    """Owns the agents of one run."""

    def __init__(self, group: asyncio.TaskGroup) -> None:
        self._group = group
        self.agents: dict[str, dict[str, Any]] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.inboxes: dict[str, asyncio.Queue[Message]] = {}

    def spawn(self, behave: Behave, parent: str | None = None) -> str:
        """Start an agent and return its id."""
        agent = f"a{len(self.agents)}"
        self.agents[agent] = {"parent": parent, "children": [], "state": "running"}
        self.inboxes[agent] = asyncio.Queue()
        if parent is not None:
            self.agents[parent]["children"].append(agent)
        self.tasks[agent] = self._group.create_task(self._live(agent, behave))
        return agent

    async def _live(self, agent: str, behave: Behave) -> None:
        result = await behave(self, agent)
        self.agents[agent]["state"] = "completed"
        parent = self.agents[agent]["parent"]
        if parent is not None:
            self.send(parent, {"type": "task_result", "from": agent, "summary": result})

    def send(self, target: str, message: Message) -> None:
        """Put a message into an inbox."""
        self.inboxes[target].put_nowait(message)

    async def receive(self, agent: str) -> Message:
        """Return the agent's next message."""
        return await self.inboxes[agent].get()

    async def ask(self, agent: str, question: str) -> str:
        """Ask the parent and return its answer."""
        parent = self.agents[agent]["parent"]
        self.send(parent, {"type": "question", "from": agent, "text": question})
        answer = await self.receive(agent)
        return str(answer["text"])

    def respond(self, child: str, answer: str) -> None:
        """Answer a child's question."""
        self.send(child, {"type": "answer", "text": answer})


def reference_cost(master: Behave) -> float:
    """Return the CPU seconds of one tree."""

    async def run() -> float:
        gc.collect()
        begin = time.process_time()
        async with asyncio.TaskGroup() as group:
            ReferenceEngine(group).spawn(master)
        return time.process_time() - begin

    return asyncio.run(run())
