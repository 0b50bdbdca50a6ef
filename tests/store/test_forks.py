"""A fork is the session as it was, under ids of its own; what happened before is not copied."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from prsm_testing.memory_store import MemoryStore
from prsm_testing.steps import Steps

from prsm_core.domain.ids import Ids
from prsm_core.engine.forking import ForkRequest, fork_session
from prsm_core.errors import StoreError
from prsm_core.store import SqliteStore
from prsm_core.store.removal import remove_session
from tests.store.dumps import ancestry, dump
from tests.store.ledger_walk import Walk
from tests.store.rewriting import rewritten

NOW = 5000.0
SESSION = "S1".zfill(26)


class RealIds(Steps):
    """Steps whose ids look like those of an engine: they are known within a text."""

    def id(self, prefix):
        return f"{prefix.upper()}{next(self._numbers)}".zfill(26)

    def agent(self, name):
        return name.zfill(32)


def ids(seed):
    return Ids(lambda: NOW, Random(seed))


async def fork(store, session, seed=1, **wanted):
    return await fork_session(store, session, ForkRequest(**wanted), ids(seed), NOW)


@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 1 << 32))
@example(seed=30356)  # what is its own is a turn above one that it shares
def test_a_fork_at_any_commit_is_the_session_as_it_was_then(seed):
    async def go(folder):
        async with await SqliteStore.open(Path(folder) / "l.db") as store, MemoryStore() as memory:
            chance = Random(seed)
            walk = Walk([store, memory], chance)
            walk.steps = RealIds(SESSION)
            walk.run = walk.steps.run
            await walk.go(80)
            known: list[tuple[str, str]] = []
            for number, origin in enumerate(chance.sample(walk.copies, 6)):
                if not origin.agents:
                    continue
                session, at = chance.choice([(SESSION, str(origin.seq)), *known])
                forks = [await fork(each, session, number, at=at) for each in walk.stores]
                owner = await store.state(*await store.find_commit(session, int(at)))
                changes = await store.changes(owner.session_id)
                assert forks[0] == forks[1] == rewritten(owner, forks[0], NOW, changes)
                known.append((forks[0].session_id, str(forks[0].seq)))
                for each in (store, memory):
                    told = [event async for event in each.events(forks[0].session_id)]
                    assert [event.seq for event in told] == list(range(1, forks[0].seq + 1))
                    assert {event.session for event in told} == {forks[0].session_id}
            await walk.go_on(40)
            for each in (store, memory):
                for session, _ in known:
                    state = await store.state(session)
                    assert await each.state(session) == state
                    assert await each.picture(session) == await memory.picture(session)
                    assert await each.agents(session) == await store.agents(session)

            for number, (session, _) in enumerate(known):
                async with await SqliteStore.open(Path(folder) / f"{number}.db") as other:
                    await check_copy(store, other, session)

    with TemporaryDirectory() as folder:
        asyncio.run(go(folder))


def unnumbered(state):
    """Return a session without the numbers of commits, which are each ledger's own."""
    snapshots = tuple(replace(one, last_commit=0) for one in state.snapshots)
    return replace(state, position=0, snapshots=snapshots)


async def check_copy(store, other, session):
    """A copy of a fork, taken in elsewhere, is the same session, and can be copied again."""
    copy = await store.copy(session)
    assert await other.put_copy(copy, str) == session  # no id is taken: none is new
    state = await store.state(session)
    again = await other.state(session)
    assert unnumbered(again) == unnumbered(replace(state, origins=()))
    assert await other.copy(session) == await store.copy(session)
    assert await other.agents(session) == await store.agents(session)
    told = [event async for event in store.events(session)]
    assert [event async for event in other.events(session)] == told


async def run_of_two_turns(store):
    steps = Steps()
    await store.commit(steps.run_started())
    await store.commit(steps.spawn("master"))
    parent = None
    for number in (1, 2):
        turn = steps.turn("master", number, parent_turn_id=parent)
        parent = turn.turn_id
        await store.commit(steps.step("master", turn))
        await store.commit(steps.open_call(turn, steps.call("c1"), "master"))
        if number == 1:
            await store.commit(steps.close_call(turn, "c1", "master"))
            await store.commit(steps.close_turn(turn, "master"))


def added(before, after):
    counts = {name: len(rows) - len(before[name]) for name, rows in after.items()}
    return {name: count for name, count in counts.items() if count}


async def test_a_fork_copies_no_closed_turn(path, store):
    await run_of_two_turns(store)
    before = dump(path)
    await fork(store, "s1")
    assert added(before, dump(path)) == {
        "meta": 1,
        "forks": 1,
        "steps": 1,
        "events": 1,
        "runs": 1,
        "agents": 1,
        "agent_specs": 1,
        "sessions": 1,
        "turns": 1,
        "threads": 1,
        "tool_calls": 1,  # of the turn that is open
        "aliases": 4,  # session, run, agent, turn
    }
    session, *_ = [info.session_id for info in await store.sessions()]
    (agent,) = await store.agents(session)
    calls = await store.calls(agent.descriptor.agent_id)
    assert [(call["turn_no"], call["status"]) for call in calls] == [
        (1, "completed"),
        (2, "running"),
    ]


async def test_a_fork_goes_on_in_the_line_of_turns_that_it_shares(path, store):
    await run_of_two_turns(store)
    closed = (await store.state("s1")).agents[0].head_turn_id
    (now,) = (await fork(store, "s1")).agents
    assert now.head_turn_id == closed
    assert ancestry(path, now.open_turn.turn_id) == [closed, now.open_turn.turn_id]


async def test_what_fails_in_the_midst_of_a_fork_leaves_nothing(path, store):
    await run_of_two_turns(store)
    await store.aclose()
    before = dump(path)
    with closing(sqlite3.connect(path)) as conn:  # the last row of all
        fails = "BEGIN SELECT raise(ABORT, 'the disk is full'); END"
        conn.execute(f"CREATE TRIGGER full BEFORE INSERT ON tool_calls {fails}")
    async with await SqliteStore.open(path) as again:
        with pytest.raises(StoreError, match="the disk is full"):
            await fork(again, "s1")
        assert added(before, dump(path)) == {}
        assert (await again.state("s1")).session_id == "s1"


async def test_a_session_that_others_share_is_deleted_after_them(path, store):
    await run_of_two_turns(store)
    one = await fork(store, "s1", at="master:1")  # no turn of it is open
    other = await fork(store, one.session_id, 2)
    await store.aclose()
    with pytest.raises(StoreError) as refused:
        remove_session(path, "s1")
    assert refused.value.code == "has_forks"
    assert other.session_id in str(refused.value.hint)  # the last one goes first
    for session in (other.session_id, one.session_id, "s1"):
        remove_session(path, session)
    assert {name: rows for name, rows in dump(path).items() if rows} == {}
