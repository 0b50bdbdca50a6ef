"""events: what a provider says, appended in batches, against raw inserts of the same rows."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from prsm_testing.steps import Steps

from benchmarks.harness import compared
from benchmarks.raw_ledger import RawLedger
from prsm_core.domain.events import Event
from prsm_core.store import SqliteStore

if TYPE_CHECKING:
    from benchmarks.harness import Finding, Plan

BATCHES = 20
BATCH = 100
GOAL = 2.0
TEXT = "what the agent said, and what it did next, in about nine hundred characters " * 12


def measure(plan: Plan) -> list[Finding]:
    """Compare one event of a batch of a hundred."""
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner() as runner:
        path, twin = Path(folder) / "store.db", Path(folder) / "raw.db"
        store = runner.run(SqliteStore.open(path))
        runner.run(store.aclose())
        shutil.copy(path, twin)
        store = runner.run(SqliteStore.open(path))
        with RawLedger(path, twin) as raw:
            pair = _Pair(runner, store, raw, plan.count(BATCHES))
            found = compared(
                "events",
                f"batches of {BATCH}, an event",
                pair.store_cost,
                pair.raw_cost,
                plan,
                goal=GOAL,
            )
        runner.run(store.aclose())
    return [found]


class _Pair:
    def __init__(
        self, runner: asyncio.Runner, store: SqliteStore, raw: RawLedger, batches: int
    ) -> None:
        self._runner = runner
        self._store = store
        self._raw = raw
        self._batches = batches
        self._steps = Steps()
        self._last = 0  # number of the newest event

    def store_cost(self) -> float:
        """Return the µs of an event that the store appends."""
        batches = [[self._event() for _ in range(BATCH)] for _ in range(self._batches)]

        async def go() -> None:
            for batch in batches:
                await self._store.append(batch)

        begin = time.process_time()
        self._runner.run(go())
        return 1e6 * (time.process_time() - begin) / self._batches / BATCH

    def raw_cost(self) -> float:
        """Return the µs of a row inserted by hand: those that the store has just written."""
        stretches = []
        for _ in range(self._batches):
            rows = self._raw.read_events(self._steps.session, self._last + 1, self._last + BATCH)
            stretches.append(rows)
            self._last += BATCH
        begin = time.process_time()
        for rows in stretches:
            self._raw.write_events(rows)
        return 1e6 * (time.process_time() - begin) / self._batches / BATCH

    def _event(self) -> Event:
        data = {"turn": "t1", "role": "assistant", "text": TEXT, "thinking": None}
        return Event(
            type="message_completed",
            session=self._steps.session,
            run=self._steps.run,
            ts=1000.0,
            agent=self._steps.agent("w1"),
            data=data,
        )
