"""What an agent that waits takes, counted in bytes of Python's allocator: no clock is asked.

`python -m benchmarks memory` compares the same with agents of plain asyncio.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

from benchmarks.memory import GOAL_BYTES
from benchmarks.spawn import one_by_one
from benchmarks.team import open_team
from prsm_core.domain.budgets import BudgetKind
from prsm_core.domain.usage import Provenance
from prsm_core.engine.agents.session import AgentSession
from prsm_core.engine.spending import BudgetScope, Hold
from prsm_core.engine.turns.run import TurnRun

ROOT = Path(__file__).parents[2]
FEW, MANY, TIMES = 20, 120, 3
# Run alone, in an interpreter that has done nothing else: what other tests leave behind, such as
# larger tables of Python's own, would count as an agent's. What is under way as it is counted comes
# and goes: the least of a few is what stays.
ONE_MORE = f"""
import asyncio
from benchmarks.memory import engine_bytes

async def one_more():
    await engine_bytes({FEW})  # what all agents share is there now
    few = min([await engine_bytes({FEW}) for _ in range({TIMES})])
    many = min([await engine_bytes({MANY}) for _ in range({TIMES})])
    print((many * {MANY} - few * {FEW}) / ({MANY} - {FEW}))

asyncio.run(one_more())
"""


def bytes_of(make):
    """Return the bytes that what `make` returns takes."""
    make()  # what is shared by all is there now
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        made = [make() for _ in range(100)]
        return (tracemalloc.get_traced_memory()[0] - before) / len(made)
    finally:
        tracemalloc.stop()


def test_an_idle_agent_takes_no_more_than_known():
    done = subprocess.run(
        [sys.executable, "-c", ONE_MORE],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert 0 < float(done.stdout) <= GOAL_BYTES


def sessions_and_turns():
    """Return those that there are, whoever has made them."""
    return [one for one in gc.get_objects() if isinstance(one, (AgentSession, TurnRun))]


async def test_an_ended_agent_leaves_neither_session_nor_turn_and_no_garbage():
    async with open_team(one_by_one(FEW)) as team:
        gc.collect()
        others = sessions_and_turns()  # of other tests
        gc.disable()  # so that all that goes does so by counting references
        try:
            await team.run()
            kept = [one for one in sessions_and_turns() if all(one is not own for own in others)]
        finally:
            gc.enable()
    assert len(kept) < FEW / 2, f"those of the children are gone; {len(others)} are of other tests"


def test_an_agent_without_a_budget_of_its_own_holds_few_numbers():
    run = BudgetScope()

    def begun():
        scope = BudgetScope(agent_id="a", name="a", parent=run)
        turn = Hold(scope)
        turn.reserve(BudgetKind.TURNS, 1)
        turn.charge(BudgetKind.TURNS, 1, Provenance.MEASURED)
        return turn

    assert bytes_of(begun) <= 1000
