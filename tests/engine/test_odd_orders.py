"""Orders of events that only a simulation thought of: each of them once went wrong."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import Any

import pytest
from prsm_testing.fake_clock import FakeClock

from prsm_core.domain.agents import AgentState
from prsm_core.domain.permissions import Allow, Deny, PermissionRequest, Question
from prsm_core.domain.writes import AgentEnded, ResultClaimed, ThreadKept
from prsm_core.engine.turns.parts import ENDED
from prsm_core.errors import AgentSpawnError, FencedError, StoreError
from prsm_core.interfaces.provider import ProviderSpec
from tests.engine.harness import ScriptedProvider


async def wait_for_message(agent):
    await agent.call("wait_for_message")
    await agent.complete()


async def test_a_vendors_call_that_begins_or_ends_twice_is_told_once(team):
    async def master(agent):
        await agent.end_tool("never begun")
        for _ in range(2):
            await agent.start_tool("v1")
        for _ in range(2):
            await agent.end_tool("v1")
        await agent.complete()

    await team.run(master=master)
    begun = [event["call"] for event in team.ledger.events("tool_call_started", "master")]
    ended = [event["call"] for event in team.ledger.events("tool_call_finished", "master")]
    assert begun.count("v1") == ended.count("v1") == 1
    assert "never begun" not in ended


@pytest.mark.requirement("F1")
async def test_two_knots_that_close_at_once_are_both_acted_on(opened):
    """The master is shown a question again, and c fails although the master never waits."""

    async def master(agent):
        await agent.spawn(name="b")
        assert (await agent.call("wait_for_message"))["type"] == "question"
        await agent.spawn(name="a")
        again = await agent.call("wait_for_message")
        assert again["reminder"]
        await team.seen("agent_state_changed", "c", to="failed")
        agent.session.provider.ended_at = team.clock.now()
        await agent.call(
            "respond_to_child",
            child_id="b",
            correlation_id=again["correlation_id"],
            response="blue",
        )
        await agent.complete()

    async def a(agent):
        await agent.spawn(name="c")
        await team.seen("agent_state_changed", "c", to="waiting_for_child")
        await team.seen("agent_state_changed", "master", to="waiting_for_child")
        await agent.complete()

    async def b(agent):
        await agent.call("ask_parent", question="which?")
        await agent.complete()

    async with opened(clock=FakeClock()) as team:
        result = await team.run(master=master, a=a, b=b, c=wait_for_message)
    assert result.status == "completed"
    knots = team.ledger.events("deadlock_detected")
    assert [knot["action"] for knot in knots] == ["reminder", "victim"]
    assert team["c"].result.error_kind == "deadlock"


async def test_what_an_agent_waits_for_is_up_to_date_when_one_of_its_calls_is_answered(team):
    release = asyncio.Event()

    async def master(agent):
        await agent.spawn(name="a")
        first = agent.outcome("wait_for_message", {}, step=False)
        second = agent.outcome("spawn_child", {"prompt": "x", "name": "b", "wait": True})
        message, _ = await asyncio.gather(first, second)
        assert message.data["type"] == "task_result"
        await agent.complete()

    async def a(agent):
        await team.seen("agent_state_changed", "master", to="waiting_for_child")
        await agent.complete()

    async def b(agent):
        await release.wait()
        await agent.complete()

    running = team.start(master=master, a=a, b=b)
    await team.seen("agent_state_changed", "master", reason="waits for b")
    assert team["master"].state is AgentState.WAITING_FOR_CHILD
    assert team["master"].waiting_on == "b"
    release.set()
    assert (await running).status == "completed"


async def test_a_turn_after_one_that_ended_while_its_agent_waited_has_a_slot(opened):
    held: list[bool] = []

    async def master(agent):
        await agent.spawn(name="a")
        await agent.call("wait_for_message")  # a's question: a has let go of the only slot
        await agent.call("send_child_prompt", child_id="a", prompt="go on")
        ended.set()
        await team.seen("turn_finished", "a")
        await team.settled()
        assert not held  # the master works
        await agent.collect()
        await agent.complete()

    async def a(agent):
        if agent.turn == 1:
            asking = asyncio.ensure_future(agent.outcome("ask_parent", {"question": "which?"}))
            await ended.wait()
            asking.cancel()
            return
        held.append(team.session("a").life.holds_slot)
        await agent.complete()

    ended = asyncio.Event()
    async with opened(engine={"max_concurrent_agents": 1}) as team:
        result = await team.run(master=master, a=a)
    assert result.status == "completed"
    assert held == [True]


async def test_a_provider_that_takes_long_to_close_keeps_no_slot(opened):
    release = asyncio.Event()

    class Slow(ScriptedProvider):
        @asynccontextmanager
        async def open_session(self, request, host):
            async with super().open_session(request, host) as session:
                yield session
            if request.name == "a":
                await release.wait()

    slow = Slow()

    async def master(agent):
        await agent.spawn(name="a")
        await agent.collect()
        release.set()
        await agent.complete()

    def factory(_settings, services):
        slow.services = services
        return slow

    spec = ProviderSpec(name="slow", summary="closes late", factory=factory)
    slow.behaviours["master"] = master
    async with opened(engine={"max_concurrent_agents": 1}, others=(spec,)) as team:
        result = await team.run(options={"provider": "slow"})
    assert result.status == "completed"
    assert not slow.failures


async def test_an_agent_that_has_just_made_a_call_is_not_silent(opened):
    """Its provider says nothing for a long time, then calls: more calls may follow."""

    async def master(agent):
        clock = agent.session.provider.services.clock
        await agent.spawn(name="a")
        await clock.sleep(10)
        waiting = asyncio.ensure_future(agent.outcome("wait_for_message", {}, step=False))
        await clock.sleep(4)
        states.append(team["master"].state)
        await clock.sleep(2)
        states.append(team["master"].state)
        await waiting
        await agent.complete()

    async def a(agent):
        await agent.session.provider.services.clock.sleep(60)
        await agent.complete()

    states: list[AgentState] = []
    async with opened(clock=FakeClock()) as team:
        result = await team.run(master=master, a=a)
    assert result.status == "completed"
    assert states == [AgentState.RUNNING, AgentState.WAITING_FOR_CHILD]


def intercept(store, act):
    """Have `act(step)` called before each commit of a store."""
    commit = store.commit

    async def first_act(step):
        act(step)
        return await commit(step)

    vars(store)["commit"] = first_act


async def test_a_child_hears_that_its_parent_finishes_although_the_call_was_cut_off(team):
    calls = []

    async def master(agent):
        await agent.spawn(name="a")
        await team.seen("agent_state_changed", "a", to="waiting_for_parent")
        calls.append(asyncio.ensure_future(agent.outcome("task_complete", {"summary": "done"})))
        await asyncio.wait(calls)

    async def a(agent):
        assert await agent.refused("ask_parent", question="which?") == "parent_ended"
        await agent.complete()

    def cut_off(step):
        if step.find(ResultClaimed) is not None:
            calls[0].cancel()

    intercept(team.store, cut_off)
    result = await team.run(master=master, a=a)
    assert result.status == "completed"


async def test_a_run_ends_when_the_store_breaks_as_an_agents_end_is_written(opened):
    async def master(agent):
        await agent.spawn(name="a")
        await agent.collect()

    def fail(step):
        if step.find(AgentEnded) is not None:
            raise StoreError("the disk is full")

    async with opened(check=False) as team:
        intercept(team.store, fail)
        with pytest.raises(StoreError, match="the disk is full"):
            await team.run(master=master)


async def test_after_a_write_that_failed_an_engine_writes_nothing_more_and_another_goes_on(opened):
    struck = asyncio.Event()

    async def master(agent):
        await agent.spawn(name="a")
        await agent.collect()
        await agent.complete()

    async def a(agent):
        await team.seen("agent_state_changed", "master", to="waiting_for_child")
        await agent.complete()

    async def mastered(agent):  # the call that was cut off has its answer: it waits no more
        await agent.complete()

    def fail(step):
        if step.find(AgentEnded) is not None and not struck.is_set():
            struck.set()
            raise StoreError("the disk was full for a moment")

    async with opened(check=False) as team:
        intercept(team.store, fail)
        with pytest.raises(StoreError, match="the disk was full for a moment"):
            await team.run(master=master, a=a)
    assert team.ledger.rows("SELECT status FROM runs") == [("running",)]
    assert team.ledger.events("turn_finished") == []
    assert not {"failed", "killed"} & {e["to"] for e in team.ledger.events("agent_state_changed")}
    async with opened() as again:
        again.provider.behaviours["master"] = mastered
        assert (await again.engine.resume()).status == "completed"


async def test_a_call_of_an_impatient_client_delivered_twice_at_once_is_two_calls(team):
    async def master(agent):
        twice = [
            agent.host.call_tool("get_children_status", {}, call_id="c", patience_s=5.0)
            for _ in range(2)
        ]
        outcomes = await asyncio.gather(*twice)
        assert not any(outcome.is_error for outcome in outcomes)
        await agent.complete()

    result = await team.run(master=master)
    assert result.status == "completed"


async def test_an_agent_that_is_told_to_come_again_has_a_slot(opened):
    """Its model goes on, although its call still waits."""

    async def master(agent):
        await agent.spawn(name="a")
        waiting = agent.host.call_tool("wait_for_message", {}, patience_s=30.0)
        task = asyncio.ensure_future(waiting)
        await asyncio.sleep(0)
        await agent.step_ended()
        token = (await task).data["token"]
        held.append(team.session("master").life.holds_slot)
        await agent.call("wait_for_message", token=token)
        await agent.complete()

    async def a(agent):
        await agent.session.provider.services.clock.sleep(60)
        await agent.complete()

    held: list[bool] = []
    async with opened(clock=FakeClock()) as team:
        result = await team.run(master=master, a=a)
    assert result.status == "completed"
    assert held == [True]


async def test_what_an_ended_life_still_asks_for_is_refused_while_the_next_one_waits(opened):
    hosts: list[Any] = []

    async def master(agent):
        await agent.spawn(name="a")
        await agent.collect()
        await agent.call("restart_child", child_id="a", prompt="2")
        question = await agent.call("wait_for_message")
        await team.seen("agent_state_changed", "a", to="waiting_for_parent")
        before = team.ledger.written()
        past = hosts[0]
        command = PermissionRequest(agent_id=team["a"].agent_id, tool="Bash", command="echo hi")
        assert await past.authorize(command) == Deny("the agent has ended")
        assert (await past.ask_user(Question(text="who?"))).text == ENDED
        assert (await past.call_tool("report_progress", {"status": "at it"})).is_error
        await team.settled()
        assert team.ledger.written() == before
        assert team["a"].agent_id in team.engine.detector.graph.blocked
        correlation_id = question["correlation_id"]
        await agent.call(
            "respond_to_child", child_id="a", correlation_id=correlation_id, response="blue"
        )
        await agent.collect()
        await agent.complete()

    async def a(agent):
        hosts.append(agent.host)
        if agent.turn == 2:
            await agent.call("ask_parent", question="which?")
        await agent.complete()

    async with opened(interactive=True) as team:
        result = await team.run(master=master, a=a)
    assert result.status == "completed"
    assert not team.ledger.events("question_asked")


async def test_a_permission_that_a_life_asked_for_is_not_decided_in_the_next_one(team):
    """A check may take long: whoever asked has ended meanwhile, and lives again."""
    asked, decide = asyncio.Event(), asyncio.Event()
    verdicts = []

    async def decide_late(_request, _context):
        asked.set()
        await decide.wait()
        return Allow()

    async def ask(host, agent_id):
        command = PermissionRequest(agent_id=agent_id, tool="Bash", command="echo hi")
        verdicts.append(await host.authorize(command))

    async def master(agent):
        await agent.spawn(name="a")
        await agent.collect()
        await agent.call("restart_child", child_id="a", prompt="2")
        await team.seen("turn_started", "a", n=2)
        decide.set()
        await agent.collect()
        await agent.complete()

    async def a(agent):
        if agent.turn == 1:
            _ = team.engine.start_soon(ask(agent.host, agent.id), name="a late answer")
            await asked.wait()
        else:
            await decide.wait()
        await agent.complete()

    vars(team.broker)["decide"] = decide_late
    result = await team.run(master=master, a=a)
    assert result.status == "completed"
    assert verdicts == [Deny("the agent has ended")]


async def test_nobody_restarts_a_child_whose_parent_is_being_killed(opened):
    """The parent's session takes long to close, and its child was killed before."""
    release, killed = asyncio.Event(), asyncio.Event()

    class Slow(ScriptedProvider):
        @asynccontextmanager
        async def open_session(self, request, host):
            async with super().open_session(request, host) as session:
                try:
                    yield session
                finally:
                    if request.name == "a":
                        killed.set()
                        await release.wait()

    slow = Slow()

    async def master(agent):
        await agent.spawn(name="a")
        await team.seen("agent_state_changed", "b", to="completed")
        kill = asyncio.ensure_future(team.manager.kill_agent(team["a"].agent_id))
        await killed.wait()
        with pytest.raises(AgentSpawnError, match="its parent has ended"):
            await team.manager.restart_agent(team["b"].agent_id, "2")
        release.set()
        await kill
        await agent.collect()
        await agent.complete()

    async def a(agent):
        await agent.spawn(name="b")
        await agent.hang()

    def factory(_settings, services):
        slow.services = services
        return slow

    spec = ProviderSpec(name="slow", summary="closes late", factory=factory)
    slow.behaviours |= {"master": master, "a": a}
    async with opened(others=(spec,)) as team:
        result = await team.run(options={"provider": "slow"})
    assert result.status == "completed"
    assert not slow.failures


async def test_nothing_of_an_agent_follows_run_finished(team):
    await team.run()
    team.engine.journal.note("budget_exceeded", kind="turns", used=1, limit=1)
    await team.settled()
    with pytest.raises(FencedError, match="after the end of the run"):
        await team.manager.steps.write(team["master"], ThreadKept(thread="t"))
    assert team.ledger.events()[-1]["type"] == "run_finished"


async def test_a_call_of_a_life_that_never_had_a_turn_is_refused(opened):
    """Its agent was killed while its session was opened, and lives again."""
    hosts = []

    class Slow(ScriptedProvider):
        @asynccontextmanager
        async def open_session(self, request, host):
            if request.name == "a":
                hosts.append(host)
            if len(hosts) == 1:
                await asyncio.Event().wait()
            async with super().open_session(request, host) as session:
                yield session

    slow = Slow()

    async def master(agent):
        await agent.spawn(name="a")
        await team.seen("agent_state_changed", "a", to="starting")
        await team.settled()
        await team.manager.kill_agent(team["a"].agent_id)
        await agent.collect()
        await agent.call("restart_child", child_id="a", prompt="2")
        outcome = await hosts[0].call_tool("report_progress", {"status": "at it"})
        assert outcome.data["error"]["code"] == "turn_over"
        await agent.collect()
        await agent.complete()

    def factory(_settings, services):
        slow.services = services
        return slow

    spec = ProviderSpec(name="slow", summary="opens late", factory=factory)
    slow.behaviours["master"] = master
    async with opened(others=(spec,)) as team:
        result = await team.run(options={"provider": "slow"})
    assert result.status == "completed"
    assert not slow.failures
