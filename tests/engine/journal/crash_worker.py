"""Stages and commits by a journal until it is killed, and says on stdout what was acknowledged.

Run as `python crash_worker.py LEDGER NAME`; NAME is unique among all workers of a ledger.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from itertools import count
from pathlib import Path

from prsm_testing.steps import Steps

from prsm_core.domain.agents import AgentState
from prsm_core.domain.writes import AgentSpawned
from prsm_core.engine.journal.unit import Journal
from prsm_core.kit.background import Background
from prsm_core.kit.clocks import SystemClock
from prsm_core.permissions import Redactor
from prsm_core.store import SqliteStore

RUNNING, WAITING = AgentState.RUNNING, AgentState.WAITING_FOR_CHILD


async def main(path: Path, name: str) -> None:
    """Number what one agent does: changes of state that are staged, facts, and steps."""
    steps, clock, dice = Steps("s1"), SystemClock(), random.Random()
    background = Background(lambda what, error: sys.exit(f"{what}: {error!r}"), clock)
    async with await SqliteStore.open(path) as store:
        journal = Journal(
            store,
            clock,
            background,
            session_id="s1",
            on_events=lambda _: None,
            redactor=Redactor([]),
        )
        journal.begin_run(steps.run)
        born = AgentSpawned(agent=steps.descriptor(name))
        up = steps.change(AgentState.PENDING, AgentState.STARTING)
        runs = steps.change(AgentState.STARTING, RUNNING)
        ids = (f"{name}:{number}" for number in count(1))
        await journal.commit(steps.step(name, born, up, runs, step_id=next(ids)))
        state = RUNNING
        for number in count(1):
            act = dice.choice(["stage", "stage", "say", "commit", "rest"])
            if act == "say":
                journal.note("notice", steps.agent(name), level="info", text=str(number))
                continue
            source, state = state, WAITING if state is RUNNING else RUNNING
            writes = (steps.change(source, state), steps.told(str(number)))
            step = steps.step(name, *writes, step_id=next(ids), at=clock.time())
            if act == "commit":
                await journal.commit(step)
                os.write(1, f"{number}\n".encode())
                continue
            journal.stage(step)
            if act == "rest":
                await asyncio.sleep(0.001 * dice.random())


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
