"""What else a program may do that no model may: end a child, and ask what others have used."""

from __future__ import annotations

import asyncio

import pytest

from prsm_core.domain.agents import AgentState
from prsm_core.errors import MessageRoutingError, OrchestrationError

ROLE = ("script/role", "subtask")


async def test_a_program_ends_a_child_with_all_below_it_and_is_told_as_of_any(opened):
    begun = asyncio.Event()

    async def below(agent):
        begun.set()
        await agent.hang()

    async def child(agent):
        await agent.spawn(name="below")
        await agent.hang()

    async def master(agent):
        await agent.spawn(name="late", labels=dict([ROLE]))
        await begun.wait()
        await agent.host.end_child("late", "it is late")
        (ended,) = agent.host.children()
        assert (ended.state, ended.result.error) == (AgentState.KILLED, "it is late")
        message = await agent.call("wait_for_message")
        assert (message["name"], message["success"], message["error"]) == (
            *("late", False),
            "it is late",
        )
        await agent.host.end_child(ended.agent_id, "again")  # it has ended: nothing happens
        assert agent.host.children() == (ended,)
        with pytest.raises(MessageRoutingError):
            await agent.host.end_child("below", "no child of its")
        await agent.complete()

    async with opened(is_program=True) as team:
        result = await team.run("do it", master=master, late=child, below=below)
    assert result.status == "completed"
    ends = {e["agent"]: e["to"] for e in team.ledger.events("agent_state_changed")}
    assert sorted(ends.values()) == ["completed", "killed", "killed"]


async def test_no_model_ends_a_child_or_hears_what_others_have_used(opened):
    async def master(agent):
        await agent.spawn(name="w1")
        for act in (agent.host.end_child("w1", "x"), agent.host.spent_with_label(*ROLE)):
            with pytest.raises(OrchestrationError) as caught:
                await act
            assert caught.value.code == "no_program"
        await agent.collect()
        await agent.complete()

    async with opened() as team:
        assert (await team.run("do it", master=master)).status == "completed"


async def test_what_agents_of_a_label_have_used_is_told_whole_and_of_the_ended_alone(opened):
    told = []

    async def below(agent):  # it has the label too, by its birth
        await agent.use(input_tokens=5, output_tokens=0)
        await agent.complete()

    async def child(agent):
        await agent.use(input_tokens=10, output_tokens=2)
        await agent.spawn(name="below")
        await agent.collect()
        await agent.complete()

    async def plain(agent):
        await agent.use(input_tokens=100, output_tokens=0)
        await agent.complete()

    async def works(agent):
        await agent.call("ask_parent", question="go on?")

    async def master(agent):
        assert await agent.host.spent_with_label(*ROLE) == []
        await agent.spawn(name="w1", labels=dict([ROLE]))
        await agent.collect()
        await agent.spawn(name="w2", labels={"script/role": "judge"})
        await agent.collect()
        await agent.spawn(name="w3", labels=dict([ROLE]))
        asked = await agent.call("wait_for_message")
        told.extend(await agent.host.spent_with_label(*ROLE))
        about = {"child_id": "w3", "correlation_id": asked["correlation_id"]}
        await agent.call("respond_to_child", response="yes", **about)
        await agent.host.end_child("w3", "enough")
        await agent.complete()

    async with opened(is_program=True) as team:
        await team.run("do it", master=master, w1=child, below=below, w2=plain, w3=works)
    assert [one.usage.known_total for one in told] == [17]
