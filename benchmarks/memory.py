"""memory: what an agent takes that waits in a tool call, beside the ledger on disk."""

from __future__ import annotations

import asyncio
import gc
import tempfile
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.harness import Finding
from benchmarks.reference import ReferenceEngine
from benchmarks.team import DONE, open_team
from prsm_core.store import SqliteStore

if TYPE_CHECKING:
    from benchmarks.harness import Plan
    from benchmarks.team import Calls

AGENTS = 500
GOAL_BYTES = 20 * 1024
GOAL_RATIO = 2.5
ROUNDS = 20  # of the loop and of the ledger's writer, until nothing is under way
WAITING = "waiting_for_child"  # … or for any message


def measure(plan: Plan) -> list[Finding]:
    """Compare an idle agent of each kind; memory does not vary, one measurement is enough."""
    count = plan.count(AGENTS)
    size, plain = asyncio.run(engine_bytes(count)), asyncio.run(plain_bytes(count))
    unit, case = "bytes", f"one of {count} idle agents"
    return [
        Finding(benchmark="memory", case=case, unit=unit, value=size, goal=GOAL_BYTES),
        Finding(
            benchmark="memory",
            case=f"{case}, compared",
            unit=unit,
            value=size,
            reference=plain,
            ratio=size / plain,
            goal=GOAL_RATIO,
        ),
    ]


async def engine_bytes(count: int) -> float:
    """Return the bytes of one of PRSM's agents that waits for a message.

    The ledger is on disk, as in every run: its rows are not what an agent takes.
    """

    def behave(prompt: str) -> Calls:
        if prompt == "lead":
            children = [{"prompt": "idle", "name": f"c{number}"} for number in range(count)]
            yield "spawn_children_parallel", {"children": children}
            yield "wait_for_message", {"timeout": 3600}  # so that waiting for it is no deadlock
        yield "wait_for_message", {}
        yield DONE

    with tempfile.TemporaryDirectory() as folder:
        store = await SqliteStore.open(Path(folder) / "ledger.db")
        async with store, open_team(behave, store=store) as team:
            tracemalloc.start()
            before, waiting = _traced(), 0
            running = team.engine.start_soon(team.engine.run("lead"), name="run")
            async for event in store.events("session", follow=True):
                waiting += event.type == "agent_state_changed" and event.data["to"] == WAITING
                if waiting > count:
                    break
            for _ in range(ROUNDS):  # what still moves is not an agent's
                await asyncio.sleep(0)
                await store.append(())
            size = (_traced() - before) / count
            tracemalloc.stop()
            running.cancel()
    return size


async def plain_bytes(count: int) -> float:
    """Return the bytes of an agent of the reference that waits for a message."""

    async def idle(engine: ReferenceEngine, agent: str) -> str:
        await engine.receive(agent)
        return "done"

    tracemalloc.start()
    before = _traced()
    async with asyncio.TaskGroup() as group:
        engine = ReferenceEngine(group)
        agents = [engine.spawn(idle) for _ in range(count)]
        await asyncio.sleep(0)
        size = (_traced() - before) / count
        for agent in agents:
            engine.send(agent, {})
    tracemalloc.stop()
    return size


def _traced() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]
