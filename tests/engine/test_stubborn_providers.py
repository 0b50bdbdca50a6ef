"""Providers that do not let go when they are told to: the rest of the run does not suffer."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest
from prsm_testing.fake_clock import FakeClock

from prsm_core.domain.agents import AgentState
from prsm_core.errors import AgentSpawnError
from prsm_core.interfaces.provider import ProviderSpec
from tests.engine.harness import ScriptedProvider, ScriptedSession, failed


async def hold_on(released: asyncio.Event) -> None:
    """Wait for the event, whoever cancels the wait."""
    while not released.is_set():
        try:
            await released.wait()
        except asyncio.CancelledError:
            continue


class StubbornSession(ScriptedSession):
    provider: Stubborn

    async def run_turn(self, context):
        try:
            async for event in super().run_turn(context):
                yield event
        except asyncio.CancelledError:
            if self.request.name not in self.provider.stubborn_turns:
                raise
            await hold_on(self.provider.released)  # and nobody hears that it was cancelled


class Stubborn(ScriptedProvider):
    """Keeps the sessions, or the turns, of some agents until it is released."""

    def __init__(self, *, sessions=(), turns=(), reusable=True, **fields):
        super().__init__(**fields)
        self.stubborn_sessions = set(sessions)
        self.stubborn_turns = set(turns)
        self.reusable = reusable
        self.is_held_at_the_end = False
        self.released = asyncio.Event()

    async def aclose(self):
        if self.is_held_at_the_end:
            await hold_on(self.released)
        await super().aclose()

    def spec(self):
        return ProviderSpec(name="stubborn", summary="holds on", factory=super().spec().factory)

    @asynccontextmanager
    async def open_session(self, request, host):
        self.requests[request.name].append(request)
        session = StubbornSession(self, request, host)
        session.reusable = self.reusable
        try:
            yield session
        finally:
            if request.name in self.stubborn_sessions:
                await hold_on(self.released)


@pytest.fixture
def stubborn(opened):
    """Open a team whose agents are all of a stubborn provider."""

    @asynccontextmanager
    async def open_team(provider):
        async with opened(clock=FakeClock(), others=(provider.spec(),)) as team:

            def start(limit=None, **behaviours):
                provider.behaviours.update(behaviours)
                running = asyncio.get_running_loop().create_future()

                async def drive():
                    run = team.engine.run("do it", provider="stubborn", timeout_s=limit)
                    running.set_result(await run)

                _ = team.engine.start_soon(drive(), name="run")
                return running

            try:
                yield team, start
            finally:
                provider.released.set()
        assert not provider.failures

    return open_team


async def test_who_was_interrupted_begins_no_turn_when_its_session_closes_at_last(stubborn):
    """Its provider wants a new session after an error, and is not done with the old one."""
    provider = Stubborn(sessions=["master"], reusable=False)

    async def master(agent):
        raise failed("busy", retryable=True)

    async with stubborn(provider) as (team, start):
        running = start(master=master)
        await team.seen("retry_scheduled")
        await team.clock.sleep(20)  # the session is being closed
        await team.engine.shutdown()
        assert (await running).status == "interrupted"
        provider.released.set()
        await team.settled()
        assert len(provider.requests["master"]) == 1
    assert team.ledger.events()[-1]["type"] == "run_finished"


async def test_a_turn_that_is_not_let_go_of_keeps_no_run_from_its_end(stubborn):
    provider = Stubborn(turns=["master"])

    async def master(agent):
        await agent.say("I begin")
        await agent.hang()

    async with stubborn(provider) as (team, start):
        running = start(master=master)
        await team.seen("message_completed", "master", text="I begin")
        await team.engine.shutdown()
        assert (await running).status == "interrupted"
        provider.released.set()
        await team.settled()
    assert team.ledger.events("turn_finished") == []  # a resume goes on with it
    assert team.ledger.events()[-1]["type"] == "run_finished"


async def test_a_killed_agent_lives_again_only_when_its_session_has_closed(stubborn):
    provider = Stubborn(sessions=["a"])

    async def master(agent):
        await agent.spawn(name="a")
        await team.seen("turn_started", "a")
        await team.manager.kill_agent(team["a"].agent_id)
        await agent.collect()
        assert await agent.refused("restart_child", child_id="a", prompt="2") == "still_running"
        provider.released.set()
        await agent.call("restart_child", child_id="a", prompt="2", wait=True)
        await agent.complete()

    async def a(agent):
        if agent.turn == 1:
            await agent.hang()
        await agent.complete()

    async with stubborn(provider) as (team, start):
        assert (await start(master=master, a=a)).status == "completed"


async def test_a_master_that_is_not_let_go_of_begins_no_other_run(stubborn):
    provider = Stubborn(sessions=["master"])
    async with stubborn(provider) as (team, start):
        await start()
        with pytest.raises(AgentSpawnError, match="has not closed yet"):
            await team.engine.run_continuation("more", team["master"].agent_id)
        assert not team.engine.is_running
        provider.released.set()
        await team.settled()
        result = await team.engine.run_continuation("more", team["master"].agent_id)
        assert result.status == "completed"
    assert len(team.ledger.events("run_started")) == 2


async def test_an_agent_whose_provider_swallowed_a_cut_off_can_be_killed(stubborn):
    provider = Stubborn(turns=["a"], obeys=False)

    async def master(agent):
        await agent.spawn(name="a")
        await team.seen("turn_started", "a")
        a, task = team.session("a"), team.task("a")
        a.turn.interrupt()
        await team.clock.sleep(30)  # cut off, and not let go of
        provider.released.set()
        await team.seen("turn_started", "a", n=2)
        await team.manager.kill_agent(team["a"].agent_id)
        assert task.done()
        await agent.collect()
        await agent.complete()

    async def a_child(agent):
        await agent.hang()

    async with stubborn(provider) as (team, start):
        assert (await start(master=master, a=a_child)).status == "completed"


@pytest.mark.requirement("E85")
async def test_an_agent_fails_whose_provider_never_ends_a_turn(stubborn):
    """It is silent, does not heed the interrupt, and swallows its cancellation."""
    provider = Stubborn(turns=["a"], obeys=False)

    async def master(agent):
        await agent.spawn(name="a")
        [result] = await agent.collect()
        assert "provider stubborn does not end a turn" in result["error"]
        assert team.engine.slots.in_use == 1
        await agent.complete()

    async def a_child(agent):
        await agent.hang()

    async with stubborn(provider) as (team, start):
        assert (await start(master=master, a=a_child)).status == "completed"
        provider.released.set()
        await team.settled()


@pytest.mark.parametrize("kinds", [("turns",), ("sessions",), ("turns", "sessions", "close")])
async def test_a_time_limit_waits_for_all_of_them_together(stubborn, kinds):
    """A tree four deep, whose provider lets go of nothing: the engine is gone 15 s later."""
    names = ["master", "a", "b", "c"]
    provider = Stubborn(**{kind: names for kind in kinds if kind != "close"}, obeys=False)
    provider.is_held_at_the_end = "close" in kinds

    def spawning(child):
        async def act(agent):
            if child is not None:
                await agent.spawn(name=child)
            await agent.hang()

        return act

    acts = {name: spawning(child) for name, child in zip(names, [*names[1:], None], strict=True)}
    async with stubborn(provider) as (team, start):
        running = start(limit=20.0, **acts)
        await team.seen("turn_started", "c")
        began = team.clock.now()
        assert (await running).status == "killed"
        assert team.clock.now() - began <= 20.0 + 15.0
        await team.engine.shutdown()
        assert team.clock.now() - began <= 20.0 + 15.0
        provider.released.set()
        await team.settled()
    assert team.ledger.events()[-1]["type"] == "run_finished"
    assert {team[name].state for name in names} == {AgentState.KILLED}
