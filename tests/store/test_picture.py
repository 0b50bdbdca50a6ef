"""A picture is what the whole log tells, however little of it is read for it."""

import itertools
import random
import sqlite3
from contextlib import closing
from typing import Any

import pytest
from prsm_testing.memory_store import MemoryStore
from prsm_testing.store_contract import Steps

from prsm_core.domain.events import Event
from prsm_core.engine.door.replay import Played
from prsm_core.interfaces.store import Picture
from prsm_core.store import SqliteStore
from prsm_core.store.picture import TAIL, Pictures

AGENTS = ("master", "w1", "w2")
ROW_IDS = ("a", "x", 'say "x", \\ and é', "b", "y", "\\", "z", '"', "c")  # some as others' calls


def said(steps, name, kind, **data):
    return Event(
        type=kind, session=steps.session, run=steps.run, ts=1.0, agent=steps.agent(name), data=data
    )


async def _both_stores(tmp_path):
    yield MemoryStore()
    yield await SqliteStore.open(tmp_path / "ledger.db")


async def test_calls_of_two_kinds_that_share_an_id_are_two(tmp_path):
    """One of orchestration, one of the vendor's; the end of either leaves the other open."""
    begun = {"call": "c1", "tool": "Bash", "arguments": {"turn": "t"}, "orchestration": False}
    ended = {"call": "c1", "status": "completed", "result": 'of "turn":"t"'}
    async for store in _both_stores(tmp_path):
        async with store:
            steps = Steps()
            turn = steps.turn("w1")
            await store.commit(steps.run_started())
            await store.commit(steps.spawn("w1"))
            await store.commit(steps.step("w1", turn))
            await store.commit(steps.open_call(turn, steps.call("c1", tool_name="spawn"), "w1"))
            await store.append([said(steps, "w1", "tool_call_started", **begun)])
            assert await open_tools(store, tmp_path) == ["spawn", "Bash"]
            await store.append([said(steps, "w1", "tool_call_finished", **ended)])
            assert await open_tools(store, tmp_path) == ["spawn"]
            await store.append([said(steps, "w1", "tool_call_started", **begun)])
            await store.commit(steps.close_call(turn, "c1", "w1"))
            assert await open_tools(store, tmp_path) == ["Bash"]


async def open_tools(store, folder):
    """Return the tools of the open calls, by what is kept, read anew and played from the log."""
    known = await store.picture("s1")
    assert known == await told_by_log(store, "s1")
    if isinstance(store, SqliteStore):
        async with await SqliteStore.open(folder / "ledger.db", read_only=True) as other:
            assert await other.picture("s1") == known
    played = Played(known.agents)
    async for one in store.events("s1"):
        played.take(one)
    [turn] = known.turns
    assert played.picture().turns == [turn]
    return [call.tool for call in turn.calls]


class Session:
    """A session in which things happen by chance; some part of the calls are of orchestration."""

    def __init__(self, store, chance, orchestrated=0.0):
        self._store = store
        self._chance = chance
        self.steps = Steps()
        self._turns = {}
        self._numbers = dict.fromkeys(AGENTS, 0)
        self._closed = {}
        self._open = {}  # calls of orchestration, by agent
        self._begun = {}  # how many of them, by agent
        self._orchestrated = orchestrated

    async def begin(self):
        await self._store.commit(self.steps.run_started())
        for name in AGENTS:
            parent = None if name == "master" else "master"
            await self._store.commit(self.steps.spawn(name, parent))

    async def go_on(self):
        name = self._chance.choice(AGENTS)
        if name not in self._turns:
            await self._begin_turn(name)
        elif self._chance.random() < 0.15:
            await self._close(name)
        elif self._chance.random() < self._orchestrated:
            await self._orchestrate(name)
        else:
            await self._call(name)

    async def turn_of_calls(self, name, count):
        """A turn, the agent's next, with so many calls that have ended and one that has not."""
        if name in self._turns:
            await self._close(name)
        await self._begin_turn(name)
        turn = self._turns[name]
        for number in range(count + 1):
            call = f"call-{number}"
            if self._orchestrated:
                await self._store.commit(self.steps.open_call(turn, self.steps.call(call), name))
            else:
                begun = {"call": call, "tool": "Bash", "arguments": {}}
                told = said(self.steps, name, "tool_call_started", **begun)
                await self._store.append([told])
            if number < count and self._orchestrated:
                await self._store.commit(self.steps.close_call(turn, call, name))
            elif number < count:
                ended = {"call": call, "status": "completed", "result": "x"}
                told = said(self.steps, name, "tool_call_finished", **ended)
                await self._store.append([told])

    async def _begin_turn(self, name):
        self._numbers[name] += 1
        turn = self.steps.turn(name, self._numbers[name], parent_turn_id=self._closed.get(name))
        await self._store.commit(self.steps.step(name, turn))
        self._turns[name], self._open[name], self._begun[name] = turn, [], 0

    async def _close(self, name):
        turn = self._turns.pop(name)
        window = self._chance.choice([None, {"used": 5, "window": 10}])
        await self._store.commit(self.steps.step(name, self.steps.close(turn, window=window)))
        self._closed[name] = turn.turn_id

    async def _orchestrate(self, name):
        turn, calls = self._turns[name], self._open[name]
        if calls and self._chance.random() < 0.5:
            call = calls.pop(self._chance.randrange(len(calls)))
            await self._store.commit(self.steps.close_call(turn, call, name))
        elif self._begun[name] < len(ROW_IDS):
            call = self.steps.call(ROW_IDS[self._begun[name]], tool_name="ask_parent")
            self._begun[name] += 1
            calls.append(call.id)
            await self._store.commit(self.steps.open_call(turn, call, name))

    async def _call(self, name):
        call = self._chance.choice(("a", "b", "c"))  # ids come again
        begun = {"call": call, "tool": self._chance.choice(("Bash", "Read")), "arguments": {}}
        ended = {"call": call, "status": "completed", "result": "x"}
        is_begun = self._chance.random() < 0.5
        kind = "tool_call_started" if is_begun else "tool_call_finished"
        await self._store.append([said(self.steps, name, kind, **(begun if is_begun else ended))])


async def told_by_log(store: Any, session: str) -> Picture:
    """Return the picture that the store in memory makes of the whole log of any store."""
    return await MemoryStore.picture(store, session)


@pytest.mark.requirement("D3")
@pytest.mark.parametrize("orchestrated", [0.0, 0.5, 0.9, 1.0])
@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(n, marks=pytest.mark.long) for n in range(2, 12))]
)
async def test_a_picture_is_what_the_whole_log_tells(tmp_path, seed, orchestrated):
    chance = random.Random(seed)
    async with await SqliteStore.open(tmp_path / "ledger.db") as store:
        session = Session(store, chance, orchestrated)
        await session.begin()
        for _ in range(60):
            for _ in range(chance.choice((1, 1, 2, 7))):
                await session.go_on()
            known = await store.picture(session.steps.session)
            assert known == await told_by_log(store, session.steps.session)
            if chance.random() < 0.2:
                async with await SqliteStore.open(tmp_path / "ledger.db", read_only=True) as other:
                    assert await other.picture(session.steps.session) == known


async def test_another_session_and_a_long_absence_are_looked_at_anew(tmp_path):
    async with await SqliteStore.open(tmp_path / "ledger.db") as store:
        session, other = Session(store, random.Random(1)), Steps("other")
        await session.begin()
        await store.commit(other.run_started())
        for _ in range(20):
            await session.go_on()
        first = await store.picture("s1")
        assert (await store.picture("other")).turns == []
        assert await store.picture("s1") == first
        await store.append([said(session.steps, "w1", "notice", level="info", text="x")] * TAIL)
        for _ in range(20):
            await session.go_on()
        assert await store.picture("s1") == await told_by_log(store, "s1")


async def test_a_second_picture_reads_only_what_came_since(tmp_path):
    path = tmp_path / "ledger.db"
    async with await SqliteStore.open(path) as store:
        session = Session(store, random.Random(2))
        await session.begin()
        for _ in range(500):
            await session.go_on()
    pictures = Pictures()
    first = instructions(path, pictures)
    assert instructions(path, pictures) < first


def instructions(path, pictures):
    """Return how many tens of its instructions SQLite needs for a picture."""
    steps = itertools.count()
    with closing(sqlite3.connect(path)) as conn:
        conn.row_factory = sqlite3.Row
        conn.set_progress_handler(lambda: next(steps) < 0, 10)
        pictures.read(conn, "s1")
    return next(steps)


@pytest.mark.parametrize("turns", [1, 2])
async def test_a_log_is_not_read_for_calls_whose_rows_are_closed(tmp_path, turns):
    costs = []
    for orchestrated in (0.0, 1.0):
        path = tmp_path / f"{orchestrated}.db"
        async with await SqliteStore.open(path) as store:
            session = Session(store, random.Random(3), orchestrated)
            await session.begin()
            for number in range(1, turns + 1):
                await session.turn_of_calls("w1", 300 if number == turns else 3)
            known = await store.picture("s1")
            assert known == await told_by_log(store, "s1")
            assert len(known.turns[0].calls) == 1
        costs.append(instructions(path, Pictures()))
    assert costs[1] < costs[0]
