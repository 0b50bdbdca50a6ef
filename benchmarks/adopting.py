"""How a session is taken over: its agents adopted, beside their rows by hand; what they take then.

An engine has come as far as that all its agents wait; then it is shut, with its ledger as it was.
By hand the rows are written unseen; PRSM first looks whether each life is the next one of an agent
that has not ended, and then has every agent's record, mailbox, budget, session and task.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import shutil
import time
import tracemalloc
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.harness import Finding, compare
from benchmarks.raw_ledger import RawLedger
from benchmarks.team import DONE, open_team
from prsm_core.engine.agents.resuming import to_go_on_with
from prsm_core.store import SqliteStore

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.harness import Plan
    from benchmarks.raw_ledger import Write
    from benchmarks.team import Calls, Team
    from prsm_core.domain.sessions import SessionState

SESSION = "session"
GOAL = 2.0
GOAL_MS = 500.0
GOAL_MEMORY = 1.1


def measure(plan: Plan, agents: int, folder: Path) -> list[Finding]:
    """Compare what it takes to adopt so many agents, in time and in memory."""
    count = plan.count(agents)
    path, copies = folder / "cut.db", itertools.count()
    asyncio.run(_cut_off(folder / "first.db", 2))  # what a process makes once is of no agent
    died = asyncio.run(_cut_off(path, count))

    def copied() -> Path:
        copy = folder / f"copy{next(copies)}.db"
        shutil.copy(path, copy)
        return copy

    cost, raw, ratio = compare(
        lambda: asyncio.run(_adopted(copied())),
        lambda: asyncio.run(_by_hand(path, copied())),
        plan.pairs,
    )
    lives = asyncio.run(_alive(copied(), count))
    case = f"adopting {count} agents"
    return [
        Finding(
            benchmark="resume",
            case=case,
            unit="ms",
            value=cost,
            reference=raw,
            ratio=ratio,
            goal=GOAL,
        ),
        Finding(
            benchmark="resume",
            case=f"{case}, in time",
            unit="ms",
            value=median(asyncio.run(_adopted(copied())) for _ in range(plan.pairs)),
            goal=GOAL_MS,
        ),
        Finding(
            benchmark="resume",
            case=f"{count} adopted agents that wait",
            unit="bytes",
            value=lives / count,
            reference=died / count,
            ratio=lives / died,
            goal=GOAL_MEMORY,
        ),
    ]


def behaviour(count: int, prompt: str) -> Calls:
    """Play a master with so many children that wait, or one of them."""
    if prompt == "lead":
        children = [{"prompt": "idle", "name": f"c{number}"} for number in range(count - 1)]
        yield "spawn_children_parallel", {"children": children}
        yield "wait_for_message", {"timeout": 3600}  # so that waiting for it is no deadlock
    yield "wait_for_message", {}
    yield DONE


async def _cut_off(path: Path, count: int) -> float:
    """Write a session whose agents all wait; return the bytes that they took in its engine."""
    store = await SqliteStore.open(path)
    async with store, open_team(lambda prompt: behaviour(count, prompt), store=store) as team:
        tracemalloc.start()
        before = _traced()
        running = team.engine.start_soon(team.engine.run("lead"), name="run")
        size = await _when_all_wait(team, count) - before
        tracemalloc.stop()
        running.cancel()
    return size


async def _alive(path: Path, count: int) -> float:
    """Return the bytes that the agents take in the engine that goes on with them."""
    store = await SqliteStore.open(path)
    async with store, open_team(lambda prompt: behaviour(count, prompt), store=store) as team:
        tracemalloc.start()
        before = _traced()
        running = team.engine.start_soon(team.engine.resume(), name="run")
        size = await _when_all_wait(team, count) - before
        tracemalloc.stop()
        running.cancel()
    return size


async def _when_all_wait(team: Team, count: int) -> float:
    """Return the bytes that are traced once so many agents wait in a call."""
    manager = team.engine.manager
    while True:
        await asyncio.sleep(0.01)
        sessions = [manager.lives.session_of(one.agent_id) for one in manager.roster.records()]
        turns = [session.turn for session in sessions if session is not None]
        if sum(turn is not None and turn.calls.all_wait() for turn in turns) == count:
            await team.engine.journal.flush()
            return _traced()


def _traced() -> float:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


async def _adopted(path: Path) -> float:
    """Return the ms of CPU time to take all agents of a session over, durably."""
    store = await SqliteStore.open(path)
    async with store, open_team(lambda prompt: behaviour(2, prompt), store=store) as team:
        engine = team.engine
        state = to_go_on_with(await store.state(SESSION), engine.providers.is_external)
        run, resumption = state.runs[-1], engine._parts.resumption()
        engine.journal.begin_run(run.run_id, run.epoch + 1)
        gc.collect()
        begin = time.process_time()
        await resumption.live_on(resumption.adopt(state), state, run.epoch + 1)
        spent = time.process_time() - begin
        await engine.journal.suspend()
    return 1e3 * spent


async def _by_hand(path: Path, copy: Path) -> float:
    """Return the ms of CPU time to write the same rows by hand, in one transaction."""
    async with await SqliteStore.open(copy, read_only=True) as store:
        state = await store.state(SESSION)
    with RawLedger(path, copy) as raw:
        gc.collect()
        begin = time.process_time()
        raw.write(_rows(state))
        return 1e3 * (time.process_time() - begin)


def _rows(state: SessionState) -> list[Write]:
    """Return what the new lives of a session's agents write, in the one step that they are."""
    lives = [(now.agent.agent_id, now.agent.incarnation) for now in state.agents]
    steps = [(f"{state.runs[-1].run_id}:2:1", SESSION, "AgentsResumed", state.seq + 1, 0)]
    anew = [(life + 1, id_) for id_, life in lives]
    return [
        (
            "INSERT INTO steps (step_id, session_id, kind, first_seq, event_count)"
            " VALUES (?, ?, ?, ?, ?)",
            list(steps),
        ),
        ("UPDATE agents SET incarnation = ? WHERE agent_id = ?", list(anew)),
        (
            "UPDATE inbox SET incarnation = ? WHERE target = ? AND incarnation = ?"
            " AND consumed_by IS NULL",
            [(life + 1, id_, life) for id_, life in lives],
        ),
    ]
