"""resume: what a session is gone on with, read beside all of its log, and taken over."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
import time
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from prsm_testing.steps import Steps

from benchmarks import adopting
from benchmarks.harness import Finding, compared, cpu_seconds
from prsm_core.domain.events import Event
from prsm_core.domain.ids import Ids
from prsm_core.domain.turns import Effect
from prsm_core.domain.writes import CallOpened, EffectNoted, Told
from prsm_core.engine.forking import ForkRequest, fork_session
from prsm_core.store import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from benchmarks.harness import Plan
    from prsm_core.domain.steps import Step

AGENTS = 100
TURNS = 100  # of each agent; the last one is open
SAID = 8  # messages of a turn: with its beginning and its end ten events, 100,000 in all
PAGE = 200
MESSAGES = 100_000  # of one conversation
BATCH = 1000
TEXT = "what the agent said, and what it did next, in about nine hundred characters " * 12
STATE_GOAL = 0.1
AT_GOAL = 3.0
FORK_GOAL = 0.5
PAGE_GOAL = 10.0  # ms


def measure(plan: Plan) -> list[Finding]:
    """Compare a state with the log, and one of long ago with that of now."""
    turns = plan.count(TURNS)
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner() as runner:
        store = runner.run(_written(Path(folder) / "ledger.db", turns))
        now = runner.run(store.state("s1"))
        half = _own_position(runner, store, now.position // 2)

        def ms(read: Callable[[], Awaitable[object]]) -> Callable[[], float]:
            return lambda: 1e3 * cpu_seconds(lambda: runner.run(_done(read)))

        events = f"{now.seq} events"
        found = [
            compared(
                "resume",
                f"state of {AGENTS} agents, {events}",
                ms(lambda: store.state("s1")),
                ms(lambda: _read_all(store)),
                plan,
                goal=STATE_GOAL,
                unit="ms",
            ),
            compared(
                "resume",
                "… as it was half of them ago",
                ms(lambda: store.state("s1", half)),
                ms(lambda: store.state("s1")),
                plan,
                goal=AT_GOAL,
                unit="ms",
            ),
        ]
        found += _forks(runner, store, Path(folder) / "ledger.db", events, ms, plan)
        runner.run(store.aclose())
        talk = runner.run(_talked(Path(folder) / "talk.db", plan.count(MESSAGES)))
        last = ms(lambda: _last_messages(talk))
        found.append(
            Finding(
                benchmark="resume",
                case=f"last {PAGE} of {plan.count(MESSAGES)} messages",
                unit="ms",
                value=median(last() for _ in range(plan.pairs)),
                goal=PAGE_GOAL,
            )
        )
        runner.run(talk.aclose())
    with tempfile.TemporaryDirectory() as folder:
        return [*found, *adopting.measure(plan, AGENTS, Path(folder))]


def _forks(
    runner: asyncio.Runner,
    store: SqliteStore,
    path: Path,
    events: str,
    ms: Callable[[Callable[[], Awaitable[object]]], Callable[[], float]],
    plan: Plan,
) -> list[Finding]:
    """Compare a fork with reading the log, and count the rows of turns that were over, after it."""

    async def fork() -> None:
        await fork_session(store, "s1", ForkRequest(), Ids(time.time), time.time())

    before = _closed_turns(path)
    runner.run(fork())
    after = _closed_turns(path)
    copied = Finding(
        benchmark="resume",
        case="turns that were over, after a fork",
        unit="turns",
        value=after,
        reference=before,
        ratio=after / before,
        goal=1.0,
    )
    cost = compared(
        "resume",
        f"a fork of {AGENTS} agents, {events}",
        ms(fork),
        ms(lambda: _read_all(store)),
        plan,
        goal=FORK_GOAL,
        unit="ms",
    )
    return [copied, cost]


def _closed_turns(path: Path) -> float:
    with closing(sqlite3.connect(path)) as conn:
        (count,) = conn.execute("SELECT count(*) FROM turns WHERE ended IS NOT NULL").fetchone()
        return float(count)


async def _done(read: Callable[[], Awaitable[object]]) -> None:
    await read()


def _own_position(runner: asyncio.Runner, store: SqliteStore, position: int) -> int:
    """Return a commit, having looked that it is one with open turns."""
    state = runner.run(store.state("s1", position))
    if not any(now.open_turn for now in state.agents):
        raise RuntimeError(f"no turn was open at {position}")
    return position


async def _read_all(store: SqliteStore) -> None:
    async for _ in store.events("s1"):
        pass


async def _talked(path: Path, count: int) -> SqliteStore:
    """Return a ledger of an agent that has said so much."""
    steps, store = Steps(), await SqliteStore.open(path)
    await store.commit(steps.run_started())
    await store.commit(steps.spawn("a0"))
    data = {"turn": "t1", "role": "assistant", "text": TEXT, "thinking": None, "id": "m"}
    said = Event(
        type="message_completed",
        session="s1",
        run=steps.run,
        ts=1000.0,
        agent=steps.agent("a0"),
        data=data,
    )
    for begin in range(0, count, BATCH):
        await store.append([said] * min(BATCH, count - begin))
    return store


async def _last_messages(store: SqliteStore) -> None:
    agent, kinds = Steps().agent("a0"), ("message_completed",)
    if not await store.last_events("s1", agent, kinds=kinds, limit=PAGE):
        raise RuntimeError("nobody has said anything")


async def _written(path: Path, turns: int) -> SqliteStore:
    """Return a ledger in which all agents but the first wait for answers."""
    steps, store = Steps(), await SqliteStore.open(path)
    await store.commit(steps.run_started())
    names = [f"a{number}" for number in range(AGENTS)]
    for name in names:
        await store.commit(steps.spawn(name, None if name == "a0" else "a0"))
    heads: dict[str, str | None] = dict.fromkeys(names)
    for number in range(1, turns + 1):
        acts = [_turn(steps, name, number, heads, is_open=number == turns) for name in names]
        for one in zip(*acts, strict=True):
            await asyncio.gather(*(store.commit(step) for step in one))
    return store


def _turn(
    steps: Steps, name: str, number: int, heads: dict[str, str | None], *, is_open: bool
) -> tuple[Step, Step]:
    """Return the two steps of a turn: begun, and closed or left with an open question."""
    turn = steps.turn(name, number, parent_turn_id=heads[name])
    heads[name] = turn.turn_id
    data = {"turn": turn.turn_id, "role": "assistant", "text": TEXT, "thinking": None, "id": "m"}
    told = Told(kind="message_completed", data=data)
    begun = steps.step(name, turn, *[told] * (SAID // 2))
    more = [told] * (SAID - SAID // 2)
    if not is_open:
        return begun, steps.step(name, *more, steps.close(turn))
    call, about = steps.call("c1"), steps.id("about")
    asked = Effect(turn_id=turn.turn_id, call_id="c1", name="question", ref=about)
    message = steps.message(name, "a0", correlation_id=about)
    opened = CallOpened(turn_id=turn.turn_id, call=call)
    sent = steps.sent(message)
    return begun, steps.step(name, *more, opened, *sent, EffectNoted(effect=asked))
