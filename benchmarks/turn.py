"""turn: a durable turn against raw transactions that write the same rows."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace
from prsm_testing.steps import Steps

from benchmarks.harness import compared
from benchmarks.raw_ledger import RawLedger
from prsm_core.domain.turns import AgentMessage
from prsm_core.domain.writes import TurnOpened
from prsm_core.store import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.harness import Finding, Plan
    from prsm_core.domain.steps import Step

    Turn = tuple[Step, Step]

DEPTHS = (100, 5000)
TURNS = 200  # of one measurement: both sides fold their logs more than once meanwhile
MANY = 16  # agents that write at one time
GOAL = 1.5
GOAL_DEPTH = 1.2


def measure(plan: Plan) -> list[Finding]:
    """Compare one agent's turns at two depths, and those of many agents at once."""
    turns = max(4, plan.count(TURNS))
    shallow, deep = (plan.count(depth) for depth in DEPTHS)
    with _open_ledgers(1, shallow) as near, _open_ledgers(1, deep) as far:
        found = [
            _against_raw(near, turns, plan, f"1 agent, depth {shallow}"),
            _against_raw(far, turns, plan, f"1 agent, depth {deep}"),
            compared(
                "turn",
                f"depth {deep} against {shallow}",
                lambda: far.store_cost(turns),
                lambda: near.store_cost(turns),
                plan,
                goal=GOAL_DEPTH,
            ),
        ]
    with _open_ledgers(MANY, shallow) as many:
        found.append(_against_raw(many, max(1, turns // MANY), plan, f"{MANY} agents at once"))
    return found


class Ledgers:
    """A store and its raw twin, both holding agents at some depth."""

    def __init__(self, folder: Path, agents: int, depth: int) -> None:
        self.path, self.twin = folder / "store.db", folder / "raw.db"
        self.names = [f"a{number}" for number in range(agents)]
        self.runner = asyncio.Runner()
        self._steps = Steps()
        self._heads: dict[str, str | None] = dict.fromkeys(self.names)
        self._numbers = dict.fromkeys(self.names, 0)
        self.written: list[Turn] = []
        self.runner.run(self._prepare(depth))
        shutil.copy(self.path, self.twin)
        self.store = self.runner.run(SqliteStore.open(self.path))
        self.raw = RawLedger(self.path, self.twin)

    async def _prepare(self, depth: int) -> None:
        async with await SqliteStore.open(self.path) as store:
            for name in self.names:
                await store.commit(self._steps.spawn(name))
            for _ in range(depth):
                await self._commit(store, [self._turn(name, 0) for name in self.names])

    def close(self) -> None:
        """Close both."""
        self.raw.__exit__(None, None, None)
        self.runner.run(self.store.aclose())
        self.runner.close()

    def _turn(self, name: str, size: int) -> Turn:
        """Return the two steps of the agent's next turn, with `size` messages and calls."""
        steps, said = self._steps, "words " * 330
        self._numbers[name] += 1
        opening = steps.turn(name, self._numbers[name], parent_turn_id=self._heads[name])
        self._heads[name] = opening.turn_id
        messages = tuple(
            AgentMessage(
                id=f"m{n}", role="assistant", content=said, sequence=n, created_at=1_000_000 + n
            )
            for n in range(size)
        )
        calls = tuple(
            replace(
                steps.call(f"c{n}", orchestration=False, sequence=n, completed_at=1_000_200),
                status="completed",
                result=said[:1000],
            )
            for n in range(size)
        )
        result = steps.result(messages=messages, tool_calls=calls)
        return steps.step(name, opening), steps.close_turn(opening, name, result=result)

    async def _commit(self, store: SqliteStore, turns: list[Turn]) -> None:
        if len(turns) == 1:
            for step in turns[0]:
                await store.commit(step)
            return
        for act in (0, 1):
            await asyncio.gather(*(store.commit(turn[act]) for turn in turns))

    def store_cost(self, rounds: int) -> float:
        """Return the µs of a turn that the store writes."""
        groups = [[self._turn(name, 5) for name in self.names] for _ in range(rounds)]

        async def go() -> None:
            for group in groups:
                await self._commit(self.store, group)

        begin = time.process_time()
        self.runner.run(go())
        spent = time.process_time() - begin
        self.written = [turn for group in groups for turn in group]
        return 1e6 * spent / len(self.written)

    def raw_cost(self) -> float:
        """Return the µs of a turn written by hand: those that the store has just written."""
        turns = [self.raw.read_turn(_turn_id(o), (o.step_id, c.step_id)) for o, c in self.written]
        size = len(self.names)
        groups = [turns[first : first + size] for first in range(0, len(turns), size)]
        begin = time.process_time()
        for group in groups:
            for act in (0, 1):
                self.raw.write([write for turn in group for write in turn[act]])
        return 1e6 * (time.process_time() - begin) / len(turns)


def _turn_id(opening: Step) -> str:
    return opening.all(TurnOpened)[0].turn_id


@contextmanager
def _open_ledgers(agents: int, depth: int) -> Iterator[Ledgers]:
    with tempfile.TemporaryDirectory() as folder:
        ledgers = Ledgers(Path(folder), agents, depth)
        try:
            yield ledgers
        finally:
            ledgers.close()


def _against_raw(ledgers: Ledgers, rounds: int, plan: Plan, case: str) -> Finding:
    return compared(
        "turn", case, lambda: ledgers.store_cost(rounds), ledgers.raw_cost, plan, goal=GOAL
    )
