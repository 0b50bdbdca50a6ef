"""Knots: found when they close, loosened by a reminder or by one victim, never by mistake."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager

import pytest
from prsm_testing.fake_clock import FakeClock

from prsm_core.domain.permissions import Allow, PermissionRequest
from tests.engine.harness import failed


async def wait_for_message(agent):
    await agent.call("wait_for_message")
    await agent.complete()


@pytest.mark.requirement("E31", "E79")
async def test_two_agents_that_wait_for_each_other_lose_the_deeper_one(team):
    async def master(agent):
        await agent.spawn(name="a")
        [result] = await agent.collect()
        assert result["error"] == ("deadlock: a waits for a message, master waits for a message")
        await agent.complete()

    result = await team.run("do it", master=master, a=wait_for_message)
    assert result.status == "completed"
    assert team["a"].result.error_kind == "deadlock"
    [knot] = team.ledger.events("deadlock_detected")
    assert knot["action"] == "victim"
    assert knot["victim"] == team["a"].agent_id
    assert set(knot["agents"]) == {team["a"].agent_id, team["master"].agent_id}
    moves = team.ledger.events("agent_state_changed")
    waits = {move["agent"]: move["seq"] for move in moves if move["to"] == "waiting_for_child"}
    assert waits.keys() == {"a", "master"}
    assert max(waits.values()) < knot["seq"], "a knot is told after the waits it is made of"


@pytest.mark.requirement("E31")
async def test_a_knot_is_told_before_its_victim_is_stopped(team):
    told = []

    async def master(agent):
        await agent.spawn(name="a")
        await agent.collect()
        await agent.complete()

    async def a(agent):
        try:
            await agent.call("wait_for_message")
        finally:  # a provider may take seconds here
            told.extend(team.ledger.events("deadlock_detected"))

    await team.run("do it", master=master, a=a)
    assert [knot["victim"] for knot in told] == [team["a"].agent_id]


@pytest.mark.requirement("E1", "E31")
async def test_a_knot_that_was_missed_when_it_closed_is_found_within_five_seconds(opened, caplog):
    """The sweep runs by itself as long as the engine does; what it finds is a bug, and told so."""

    async def master(agent):
        await agent.spawn(name="a")
        [result] = await agent.collect()
        assert result["error"].startswith("deadlock: ")
        await agent.complete()

    clock = FakeClock()
    async with opened(clock=clock) as team:
        detector = team.engine.detector
        # The planted bug: nobody looks at an agent that blocks.
        detector.blocked = lambda agent, waits: detector.graph.block(agent, waits)
        with caplog.at_level(logging.ERROR, logger="prsm.engine"):
            result = await team.run("do it", master=master, a=wait_for_message)
        assert (result.status, clock.now()) == ("completed", 5.0)
        [knot] = team.ledger.events("deadlock_detected")
        assert (knot["action"], knot["victim"]) == ("victim", team["a"].agent_id)
    assert "a knot was missed when it closed" in caplog.text


@pytest.mark.requirement("E79")
async def test_a_forgotten_question_is_shown_once_more_before_anyone_fails(team):
    async def master(agent):
        await agent.spawn(name="a")
        first = await agent.call("wait_for_message")
        again = await agent.call("wait_for_message")
        assert again == {**first, "reminder": True}
        await agent.call(
            "respond_to_child",
            child_id="a",
            correlation_id=again["correlation_id"],
            response="sorry, blue",
        )
        await agent.collect()
        await agent.complete()

    async def a(agent):
        said = await agent.call("ask_parent", question="which?")
        await agent.complete(said["answer"])

    result = await team.run("do it", master=master, a=a)
    assert result.status == "completed"
    assert team["a"].result.summary == "sorry, blue"
    assert [knot["action"] for knot in team.ledger.events("deadlock_detected")] == ["reminder"]


async def test_a_question_that_is_ignored_twice_costs_the_asker_its_life(team):
    async def master(agent):
        await agent.spawn(name="a")
        kinds = [(await agent.call("wait_for_message"))["type"] for _ in range(3)]
        assert kinds == ["question", "question", "task_result"]
        await agent.complete()

    async def a(agent):
        await agent.call("ask_parent", question="which?")

    result = await team.run("do it", master=master, a=a)
    assert result.status == "completed"
    actions = [knot["action"] for knot in team.ledger.events("deadlock_detected")]
    assert actions == ["reminder", "victim"]


async def test_who_also_waits_for_a_member_of_the_knot_is_reminded_once_that_has_ended(team):
    """Its model goes on when both calls are answered: a reminder alone would untie nothing."""

    async def master(agent):
        await agent.spawn(name="asks")
        await agent.call("wait_for_message")
        told, _ = await asyncio.gather(
            agent.outcome("wait_for_message", {}, step=False),
            agent.outcome("spawn_child", {"prompt": "work", "name": "stuck", "wait": True}),
        )
        assert told.data["error"].startswith("deadlock")
        again = await agent.call("wait_for_message")
        assert again["reminder"]
        answer = {"child_id": "asks", "correlation_id": again["correlation_id"]}
        await agent.call("respond_to_child", response="blue", **answer)
        await agent.collect()
        await agent.complete()

    async def asks(agent):
        await agent.complete((await agent.call("ask_parent", question="which?"))["answer"])

    result = await team.run("do it", master=master, asks=asks, stuck=wait_for_message)
    assert result.status == "completed"
    knots = team.ledger.events("deadlock_detected")
    assert [knot["action"] for knot in knots] == ["victim", "reminder"]
    assert knots[0]["victim"] == team["stuck"].agent_id
    assert team["asks"].result.summary == "blue"


async def test_a_child_that_waits_for_a_finishing_parent_is_let_go(team):
    async def master(agent):
        await agent.spawn(name="a")
        await agent.complete("my part is done")

    result = await team.run("do it", master=master, a=wait_for_message)
    assert (result.status, result.summary) == ("completed", "my part is done")
    assert team["a"].result.error_kind == "deadlock"


async def test_a_knot_of_three_generations_loses_the_deepest(team):
    async def middle(agent):
        await agent.spawn(name="b")
        message = await agent.call("wait_for_message")
        assert (message["type"], message["success"]) == ("task_result", False)
        await agent.complete("without b")

    async def master(agent):
        await agent.spawn(name="a")
        [result] = await agent.collect()
        assert result["summary"] == "without b"
        await agent.complete()

    result = await team.run("do it", master=master, a=middle, b=wait_for_message)
    assert result.status == "completed"
    assert len(team.ledger.events("deadlock_detected")) == 1
    assert team["b"].result.error_kind == "deadlock"


@asynccontextmanager
async def no_knot(opened, child, **fields):
    async def master(agent):
        await agent.spawn(name="a")
        [result] = await agent.collect()
        assert result["success"], result
        await agent.complete()

    async with opened(**fields) as team:
        running = team.start("do it", master=master, a=child)
        yield team
        result = await running
        assert result.status == "completed", result
    assert team.ledger.events("deadlock_detected") == []


async def test_an_agent_in_back_off_will_move_again(opened):
    async def a(agent):
        if agent.turn == 1:
            raise failed("busy", retryable=True, after=29.0)
        await agent.complete()

    async with no_knot(opened, a, clock=FakeClock()):
        pass


async def test_an_agent_in_line_for_a_slot_will_move(opened):
    async with no_knot(opened, lambda agent: agent.complete(), engine={"max_concurrent_agents": 1}):
        pass


async def test_an_agent_whose_vendors_tool_runs_will_move(opened):
    async def a(agent):
        await agent.start_tool()
        await agent.session.provider.services.clock.sleep(600)
        await agent.end_tool()
        await agent.complete()

    async with no_knot(opened, a, clock=FakeClock()):
        pass


async def test_an_agent_that_waits_for_a_person_will_move(opened):
    async def a(agent):
        request = PermissionRequest(agent_id=agent.id, tool="Bash", command="make")
        assert isinstance(await agent.host.authorize(request), Allow)
        await agent.complete()

    async with no_knot(opened, a, interactive=True) as team:
        asked = await team.seen("permission_requested")
        await team.settled()
        team.engine.requests.resolve(asked.data["request"], "permission", {"verdict": "once"})


async def test_a_wait_with_a_time_limit_ends_by_itself(opened):
    async def a(agent):
        assert (await agent.call("wait_for_message", timeout=300))["type"] == "pending"
        await agent.complete()

    async with no_knot(opened, a, clock=FakeClock()):
        pass


async def test_a_child_that_begins_anew_while_its_parent_waits_can_still_speak(opened):
    """Whom a wait may be ended by is not fixed when the wait begins."""
    release = asyncio.Event()

    async def master(agent):
        await agent.call("spawn_child", prompt="one", name="a", wait=True)
        await agent.spawn(name="b")
        names = {result["name"] for result in await agent.collect(2)}
        assert names == {"a", "b"}
        await agent.complete()

    async def a(agent):
        if agent.text == "two":
            again.set()
            await release.wait()
        await agent.complete()

    async def b(agent):
        await again.wait()
        release_b.set()
        await agent.complete()

    again, release_b = asyncio.Event(), asyncio.Event()
    async with opened() as team:
        running = team.start("do it", master=master, a=a, b=b)
        await team.seen("agent_spawned", "b")
        await team.seen(
            "agent_state_changed", "master", to="waiting_for_child", reason="waits for a message"
        )
        await team.manager.restart_agent(team["a"].agent_id, "two")
        await release_b.wait()
        await team.seen("agent_state_changed", "b", to="completed")
        await team.settled()
        release.set()
        assert (await running).status == "completed"
    assert team.ledger.events("deadlock_detected") == []
