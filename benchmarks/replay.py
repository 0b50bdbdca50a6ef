"""replay: the events of a session through ReplayApp, to a frontend that discards them."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from prsm_testing.steps import Steps

from benchmarks.harness import Finding, compared
from prsm_core.domain.events import Event
from prsm_core.engine.door.replay import ReplayApp
from prsm_core.kit.clocks import SystemClock
from prsm_core.store import SqliteStore

if TYPE_CHECKING:
    from benchmarks.harness import Plan

EVENTS = 20_000
RATIO = 3.0  # of reading the same rows and their JSON by hand
MICROSECONDS = 50.0  # an event: 20,000 a second
TEXT = "what the agent said, and what it did next, in about nine hundred characters " * 12


def measure(plan: Plan) -> list[Finding]:
    """Compare one event of a replay."""
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner() as runner:
        path, count = Path(folder) / "store.db", plan.count(EVENTS)
        runner.run(_record(path, count))
        found = compared(
            "replay",
            "as fast as it goes, an event",
            lambda: runner.run(_replay(path)),
            lambda: _read(path),
            plan,
            goal=RATIO,
        )
    alone = Finding(
        benchmark="replay",
        case="an event, beside 20,000 a second",
        unit="µs",
        value=found.value,
        goal=MICROSECONDS,
    )
    return [found, alone]


async def _record(path: Path, count: int) -> None:
    """Make a session whose agent calls a tool, and says something, again and again."""
    steps = Steps()
    async with await SqliteStore.open(path) as store:
        await store.commit(steps.run_started())
        await store.commit(steps.spawn("master"))
        for begin in range(0, count, 3 * 100):
            await store.append(
                [_event(steps, number) for number in range(begin, min(count, begin + 300))]
            )


def _event(steps: Steps, number: int) -> Event:
    call = f"c{number // 3}"
    kind, data = (
        ("tool_call_started", {"call": call, "tool": "Bash", "arguments": {"command": "ls"}}),
        ("tool_call_finished", {"call": call, "status": "completed", "result": TEXT[:200]}),
        ("message_completed", {"turn": "t1", "role": "assistant", "text": TEXT}),
    )[number % 3]
    return Event(
        type=kind,
        session=steps.session,
        run=steps.run,
        ts=1000.0 + number,
        agent=steps.agent("master"),
        data=data,
    )


async def _replay(path: Path) -> float:
    """Return the µs of an event, by the clock on the wall: threads of the store take part."""
    async with await SqliteStore.open(path, read_only=True) as store:
        [info] = await store.sessions()
        app = ReplayApp(
            store, info, await store.agents(info.session_id), clock=SystemClock(), stays=False
        )
        begin, count = time.perf_counter(), 0
        async for _ in app.events():
            count += 1
        return 1e6 * (time.perf_counter() - begin) / count


_ROWS = (
    "SELECT session_id, seq, ts, run_id, agent_id, type, data FROM events ORDER BY session_id, seq"
)


def _read(path: Path) -> float:
    """Return the µs of a row that is read by hand."""
    with closing(sqlite3.connect(path)) as conn:
        begin, count = time.perf_counter(), 0
        for row in conn.execute(_ROWS):
            json.loads(row[-1])
            count += 1
        return 1e6 * (time.perf_counter() - begin) / count
