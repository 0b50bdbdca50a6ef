"""ReplayApp: what was, event by event, by the clock that it is given; nothing can be done in it."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from operator import attrgetter

import pytest
from prsm_testing.fake_clock import FakeClock
from prsm_testing.memory_store import MemoryStore
from prsm_testing.steps import Steps

from prsm_core.domain.agents import AgentState, PermissionMode
from prsm_core.domain.events import Event
from prsm_core.domain.permissions import Answer
from prsm_core.engine.door.replay import ReplayApp, ReplayEndedError
from prsm_core.errors import ConfigError, PrsmError


async def record(store):
    """Commit a session of a master and a worker, whose events are 10 seconds apart."""
    steps, turn = Steps(), None
    await store.commit(steps.run_started(at=1000.0))
    await store.commit(steps.step("master", *steps.spawn("master").writes, at=1010.0))
    await store.commit(steps.step("w1", *steps.spawn("w1", "master").writes, at=1020.0))
    turn = steps.turn("w1")
    await store.commit(steps.step("w1", turn, at=1030.0))
    await store.commit(
        steps.step("w1", *steps.open_call(turn, steps.call("c1"), "w1").writes, at=1040.0)
    )
    await store.commit(steps.step("w1", *steps.close_call(turn, "c1", "w1").writes, at=1050.0))
    await store.commit(steps.step("w1", *steps.close_turn(turn, "w1").writes, at=1060.0))
    await store.commit(
        steps.step("w1", *steps.end("w1", target=AgentState.KILLED).writes, at=1070.0)
    )


async def open_app(store, **options):
    [info] = await store.sessions()
    options = {"clock": FakeClock(), "stays": False, **options}
    return ReplayApp(store, info, await store.agents("s1"), **options)


async def events(app, after=0):
    return [event async for event in app.events(after)]


async def test_what_is_seen_at_an_event_is_what_was_then():
    async with MemoryStore() as store:
        await record(store)
        app = await open_app(store, to=5)
        assert (await app.view()).tree.agents == ()
        told = await events(app)
        assert [event.seq for event in told] == [1, 2, 3, 4, 5]
        view = await app.view()
        nodes = {node.name: node for node in view.tree.walk()}
        assert (view.seq, list(nodes)) == (5, ["master", "w1"])
        assert [call.tool for call in nodes["w1"].open_tools] == ["ask_parent"]
        assert [turn.n for turn in view.turns] == [1]
        assert nodes["w1"].usage_self.total_tokens is None
        with pytest.raises(ConfigError, match="not told yet"):
            await events(app, 6)


async def test_a_turn_is_at_the_message_behind_those_that_it_had_said_then():
    said = {"turn": "t", "role": "assistant"}
    async with MemoryStore() as store:
        steps = Steps()
        await store.commit(steps.run_started())
        await store.commit(steps.spawn("master"))
        agent = steps.agent("master")
        for number in (1, 2):
            await store.commit(steps.open_turn("master", number))
            for message in (1, 2, 3)[:number]:
                one = Event(
                    type="message_completed",
                    session="s1",
                    run="r",
                    ts=2000.0,
                    agent=agent,
                    data={**said, "text": "so", "message": message},
                )
                await store.append([one])
        app, at = await open_app(store), []
        async for event in app.events():
            if event.type in {"turn_started", "message_completed"}:
                [turn] = (await app.view()).turns
                at.append((turn.n, turn.message))
    assert at == [(1, 1), (1, 2), (2, 1), (2, 2), (2, 3)]


async def test_at_the_end_the_tree_is_that_of_the_ledger():
    async with MemoryStore() as store:
        await record(store)
        app = await open_app(store)
        await events(app)
        [master] = (await app.agents.tree()).agents
        [worker] = master.children
        assert (worker.state, worker.usage_self.total_tokens) == ("killed", 15)
        assert (await app.runs.budget()).run["spawns"].used == 2
        assert await app.agents.history("w1") == await app.agents.history("w1", before=99)


async def test_time_passes_by_the_clock_and_as_fast_as_is_asked():
    async with MemoryStore() as store:
        await record(store)
        clock = FakeClock()
        app = await open_app(store, clock=clock, speed=5.0, stays=True)
        async with aclosing(app.events()) as told, asyncio.timeout(30):
            for number in range(1, 9):
                coming = asyncio.ensure_future(anext(told))
                if number > 1:
                    await clock.advance(1.9)
                    assert not coming.done()
                    await clock.advance(0.1)
                assert (await coming).seq == number


async def test_a_run_that_has_no_end_is_told_to_end_with_the_log():
    async with MemoryStore() as store:
        await record(store)
        app = await open_app(store)
        run = await app_run(app, store)
        await events(app)
        with pytest.raises(ReplayEndedError, match="event 8"):
            await run.result()


async def app_run(app, store):
    state = await store.state("s1")
    app.turn_to(state.runs[0])
    return await app.runs.start("a task")


ACTS = {
    "runs.start": ("more",),
    "runs.follow_up": ("more",),
    "runs.interrupt": (),
    "runs.set_mode": (PermissionMode.PLAN,),
    "agents.set_model": ("w1", "second"),
    "agents.prompt": ("w1", "text"),
    "agents.kill": ("w1",),
    "agents.restart": ("w1", "text"),
    "requests.resolve": ("r", "once"),
    "requests.answer": ("r", Answer(text="yes")),
    "sessions.fork": (),
    "changes.list": (),
    "snapshots.list": (),
    "changes.worktrees": (),
    "changes.hold_files": (),
    "changes.rationale": ("a.py",),
    "changes.show": ("0",),
    "snapshots.restore": ("0",),
    "changes.commit": (),
    "policy": (),
    "providers": (),
    "models": (),
}


@pytest.mark.parametrize("act", ACTS)
async def test_nothing_can_be_done_in_a_replay(act):
    async with MemoryStore() as store:
        await record(store)
        app = await open_app(store)
        with pytest.raises(PrsmError, match="this is a replay of session s1") as refused:
            await attrgetter(act)(app)(*ACTS[act])
        assert (refused.value.code, "prsm resume" in (refused.value.hint or "")) == ("replay", True)
