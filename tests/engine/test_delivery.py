"""A person's prompt to an agent at work: injected, queued, or in place of the running turn."""

from __future__ import annotations

import asyncio

import pytest
from prsm_testing.fake_clock import FakeClock

from prsm_core.errors import ConfigError, MessageRoutingError

CONSUMED = "SELECT count(*) FROM inbox WHERE type = 'user_prompt' AND consumed_by IS NOT NULL"


@pytest.mark.requirement("U1")
async def test_an_injected_prompt_reaches_the_running_turn_once(opened):
    async with opened(steers=True) as team:

        async def master(agent):
            assert agent.turn == 1
            assert await team.engine.prompting.prompt(agent.id, "hurry", "inject") == "injected"
            heard = await agent.steered.get()
            nothing = await agent.call("wait_for_message")
            assert nothing["type"] == "nothing_left"
            await agent.complete(heard)

        result = await team.run("do it", master=master)
        said = [e["text"] for e in team.ledger.events("message_completed") if e["role"] == "user"]
    assert result.summary == "The user writes:\n> hurry"
    assert said == ["do it", "The user writes:\n> hurry"]
    assert team.ledger.one(CONSUMED) == 1


@pytest.mark.requirement("U1")
async def test_what_the_provider_cannot_inject_is_queued_and_read_at_the_next_wait(team):
    async def master(agent):
        assert await team.engine.prompting.prompt(agent.id, "hurry", "inject") == "queued"
        message = await agent.call("wait_for_message")
        await agent.complete(message["text"])

    assert (await team.run("do it", master=master)).summary == "hurry"


async def test_a_provider_that_fails_to_inject_leaves_the_prompt_in_the_queue(opened):
    async with opened(steers=True) as team:

        async def master(agent):
            agent.steered = None  # its session breaks on it
            told = await team.engine.prompting.prompt(agent.id, "hurry", "inject")
            assert told == "queued"
            message = await agent.call("wait_for_message")
            await agent.complete(message["text"])

        assert (await team.run("do it", master=master)).summary == "hurry"


@pytest.mark.requirement("U1")
async def test_an_interrupting_prompt_ends_the_turn_and_begins_the_next(team):
    async def master(agent):
        if agent.turn == 1:
            hanging.set()
            await agent.hang()
        await agent.complete(agent.text)

    hanging = asyncio.Event()
    run = team.start(master=master)
    await hanging.wait()
    told = await team.engine.prompting.prompt(team["master"].agent_id, "stop that", "interrupt")
    assert told == "interrupting"
    assert (await run).summary == "The user writes:\n> stop that"
    turns = team.ledger.events("turn_finished")
    assert [turn["stop_reason"] for turn in turns] == ["aborted", "end_turn"]
    assert team.provider.interrupted == ["master"]


async def test_a_turn_that_does_not_obey_is_cut_off(opened):
    async with opened(clock=FakeClock(), obeys=False) as team:

        async def master(agent):
            if agent.turn == 1:
                hanging.set()
                await agent.hang()
            await agent.complete(agent.text)

        hanging = asyncio.Event()
        run = team.start(master=master)
        await hanging.wait()
        await team.engine.prompting.prompt(team["master"].agent_id, "stop that", "interrupt")
        await team.engine.prompting.prompt(team["master"].agent_id, "at once", "interrupt")
        assert (await run).summary == "The user writes:\n> stop that\n\nThe user writes:\n> at once"
    assert team.provider.interrupted == ["master"]


@pytest.mark.parametrize("delivery", ["inject", "interrupt"])
async def test_an_agent_that_waits_for_messages_gets_the_prompt_as_one(opened, delivery):
    async with opened(steers=True) as team:

        async def master(agent):
            await agent.spawn(name="a")
            message = await agent.call("wait_for_message")
            prompted.set()
            await agent.collect()
            await agent.complete(message["text"])

        async def a(agent):
            await prompted.wait()
            await agent.complete()

        prompted = asyncio.Event()
        run = team.start(master=master, a=a)
        await team.seen("agent_state_changed", "master", to="waiting_for_child")
        master_id = team["master"].agent_id
        assert await team.engine.prompting.prompt(master_id, "hurry", delivery) == "queued"
        assert (await run).summary == "hurry"
    assert team.provider.interrupted == []


async def test_an_interrupt_takes_back_the_calls_of_the_turn(team):
    async def master(agent):
        await agent.spawn(name="a")
        await team.seen("agent_state_changed", "a", to="waiting_for_parent")
        await team.engine.prompting.prompt(team["a"].agent_id, "never mind", "interrupt")
        await team.seen("turn_finished", "a")
        await agent.collect()
        assert team["master"].questions == {}
        await agent.complete()

    async def a(agent):
        if agent.turn == 1:
            await agent.call("ask_parent", question="which one?")
        await agent.complete(agent.text)

    assert (await team.run("do it", master=master, a=a)).status == "completed"
    assert team["a"].result.summary == "The user writes:\n> never mind"


@pytest.mark.parametrize("delivery", ["inject", "queue", "interrupt"])
async def test_an_ended_agent_is_told_nothing(team, delivery):
    async def master(agent):
        await agent.spawn(name="a")
        await agent.collect()
        before = team.ledger.written()
        with pytest.raises(MessageRoutingError, match="has ended"):
            await team.engine.prompting.prompt(team["a"].agent_id, "more", delivery)
        with pytest.raises(ConfigError, match="no delivery 'shout'"):
            await team.engine.prompting.prompt(agent.id, "more", "shout")
        assert team.ledger.written() == before
        await agent.complete()

    assert (await team.run("do it", master=master)).status == "completed"
