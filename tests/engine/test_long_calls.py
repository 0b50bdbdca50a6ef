"""Calls that outlive their client's patience: one effect, one answer, whatever breaks between."""

from __future__ import annotations

import asyncio

import pytest
from prsm_testing.fake_clock import FakeClock

from tests.engine.harness import failed

PATIENCE = 50.0  # seconds after which the client would cut a call off
SPAWNED = "SELECT count(*) FROM agents WHERE name != 'master'"


@pytest.mark.requirement("E48", "F10")
async def test_a_wait_beyond_the_clients_patience_is_pending_and_its_token_gives_the_answer(opened):
    async with opened(clock=FakeClock()) as team:

        async def master(agent):
            await agent.spawn(name="a")
            first = await agent.call_within(PATIENCE, "wait_for_message")
            assert (first["type"], "token" in first) == ("pending", True)
            token = first["token"]
            for _ in range(3):
                again = await agent.call_within(PATIENCE, "wait_for_message", token=token)
                assert (again["type"], again["token"]) == ("pending", token)
            answer = await agent.call_within(500, "wait_for_message", token=token)
            assert (answer["type"], answer["summary"]) == ("task_result", "late")
            await agent.complete()

        async def a(agent):
            await team.clock.sleep(5 * PATIENCE)
            await agent.complete("late")

        assert (await team.run("do it", master=master, a=a)).status == "completed"


@pytest.mark.requirement("F10")
async def test_an_answer_is_given_again_only_when_asked_for_and_says_so(opened):
    async with opened(clock=FakeClock()) as team:

        async def master(agent):
            first = await agent.call_within(
                PATIENCE, "spawn_child", prompt="work", name="a", wait=True
            )
            token = first["token"]
            answer = await agent.call("wait_for_message", token=token)
            again = await agent.call("wait_for_message", token=token)
            assert answer["result"]["summary"] == "late"
            assert again == {**answer, "again": True}
            assert (await agent.call("wait_for_message"))["type"] == "nothing_left"
            await agent.complete()

        async def a(agent):
            await team.clock.sleep(2 * PATIENCE)
            await agent.complete("late")

        assert (await team.run("do it", master=master, a=a)).status == "completed"
    assert team.ledger.one(SPAWNED) == 1


@pytest.mark.requirement("F10")
async def test_a_client_whose_connection_broke_makes_the_call_again_and_gets_the_first_answer(
    opened,
):
    async with opened(clock=FakeClock()) as team:

        async def master(agent):
            arguments = {"prompt": "work", "name": "a", "wait": True}
            call = agent.call_within(PATIENCE, "spawn_child", **arguments)
            begun = team.engine.start_soon(call, name="broken client")
            await team.seen("agent_state_changed", "a", to="running")
            begun.cancel()
            await asyncio.wait({begun})
            go_on.set()
            answer = await agent.call_within(PATIENCE, "spawn_child", **arguments)
            assert answer["result"]["summary"] == "done"
            assert await agent.refused("spawn_child", **arguments) == "spawn_failed"
            await agent.complete()

        go_on = asyncio.Event()

        async def a(agent):
            await go_on.wait()
            await agent.complete("done")

        assert (await team.run("do it", master=master, a=a)).status == "completed"
    assert team.ledger.one(SPAWNED) == 1


@pytest.mark.requirement("F10")
async def test_a_token_outlives_the_connection_that_asked_with_it(opened):
    async with opened(clock=FakeClock()) as team:

        async def master(agent):
            await agent.spawn(name="a")
            first = await agent.call_within(PATIENCE, "wait_for_message")
            call = agent.call_within(900, "wait_for_message", token=first["token"])
            asked = team.engine.start_soon(call, name="broken client")
            await team.seen("agent_state_changed", "master", to="waiting_for_child")
            asked.cancel()
            await asyncio.wait({asked})
            go_on.set()
            answer = await agent.call("wait_for_message", token=first["token"])
            assert answer["summary"] == "done"
            await agent.complete()

        go_on = asyncio.Event()

        async def a(agent):
            await go_on.wait()
            await agent.complete("done")

        assert (await team.run("do it", master=master, a=a)).status == "completed"


async def test_what_is_answered_in_time_leaves_no_token(team):
    async def master(agent):
        answer = await agent.call_within(PATIENCE, "get_children_status")
        assert answer["children"] == []
        assert team.session("master").turn.earlier._known == {}
        await agent.complete()

    assert (await team.run("do it", master=master)).status == "completed"


async def test_the_token_of_a_wait_that_timed_out_waits_anew(opened):
    async with opened(clock=FakeClock()) as team:

        async def master(agent):
            await agent.spawn(name="a")
            first = await agent.call("wait_for_message", timeout=1)
            assert first["type"] == "pending"
            answer = await agent.call("wait_for_message", token=first["token"])
            assert answer["summary"] == "late"
            await agent.complete()

        async def a(agent):
            await team.clock.sleep(10)
            await agent.complete("late")

        assert (await team.run("do it", master=master, a=a)).status == "completed"


async def test_two_cannot_wait_with_one_token_and_an_unknown_one_is_refused(opened):
    async with opened(clock=FakeClock()) as team:

        async def master(agent):
            unknown = "nonsense"
            assert await agent.refused("wait_for_message", token=unknown) == "unknown_token"
            await agent.spawn(name="a")
            token = (await agent.call_within(PATIENCE, "wait_for_message"))["token"]
            call = agent.call("wait_for_message", token=token)
            waiting = team.engine.start_soon(call, name="waits")
            await team.seen("tool_call_started", "master", arguments={"token": token})
            assert await agent.refused("wait_for_message", token=token) == "already_waiting"
            assert await agent.refused("wait_for_message") == "already_waiting"
            go_on.set()
            await asyncio.wait({waiting})
            await agent.complete()

        go_on = asyncio.Event()

        async def a(agent):
            await go_on.wait()
            await agent.complete()

        assert (await team.run("do it", master=master, a=a)).status == "completed"


async def test_a_call_that_failed_late_gives_its_error(opened):
    async with opened(clock=FakeClock()) as team:

        async def a(agent):
            first = await agent.call_within(PATIENCE, "ask_parent", question="which one?")
            assert await agent.refused("wait_for_message", token=first["token"]) == (
                "parent_did_not_answer"
            )
            await agent.complete()

        async def master(agent):
            if agent.turn == 1:
                await agent.spawn(name="a")
                await team.clock.sleep(2 * PATIENCE)
            await agent.say("I do not answer")

        result = await team.run("do it", master=master, a=a)
        assert team["a"].state.value == "completed", result


@pytest.mark.requirement("F1")
async def test_a_deadlock_is_found_behind_tokens(opened):
    async with opened(clock=FakeClock()) as team:

        async def master(agent):
            await agent.spawn(name="a")
            await team.clock.sleep(2 * PATIENCE)  # by then the child waits by its token
            question = await agent.call("wait_for_message")
            assert question["type"] == "question"
            again = await agent.call("wait_for_message")
            assert (again["text"], again["reminder"]) == ("?", True)
            message = await agent.call("wait_for_message")
            assert (message["type"], message["success"]) == ("task_result", False)
            await agent.complete("noticed")

        async def a(agent):
            token = (await agent.call_within(PATIENCE, "ask_parent", question="?"))["token"]
            await agent.call("wait_for_message", token=token)
            raise failed("nobody answers, so this is never reached")

        result = await team.run("do it", master=master, a=a)
        assert (result.status, result.summary) == ("completed", "noticed")
        actions = [event["action"] for event in team.ledger.events("deadlock_detected")]
    assert actions == ["reminder", "victim"]


async def test_the_end_of_the_turn_ends_what_is_pending(opened):
    async with opened(clock=FakeClock()) as team:

        async def master(agent):
            if agent.turn == 1:
                await agent.spawn(name="a")
                await agent.call_within(PATIENCE, "wait_for_message")
                await agent.say("I stop here")
                return
            assert "has completed" in agent.text
            await agent.complete()

        async def a(agent):
            await team.clock.sleep(5 * PATIENCE)
            await agent.complete()

        assert (await team.run("do it", master=master, a=a)).status == "completed"
