"""Parked turns that end before their calls are made again: each of the calls ends, too."""

from __future__ import annotations

import asyncio

import pytest

from prsm_core.engine.agents.life import SlotLease
from tests.engine.residents import asks_a_person, hangs, leads, once


async def test_who_is_killed_while_it_waits_for_a_slot_leaves_no_call_open(parked):
    """Its calls were let go of, and are not yet made again: who goes on needs a slot first."""

    async def takes_the_slot(name):
        if name == "master":
            team.engine.start_soon(other.acquire(), name="another agent")

    slots = {"max_concurrent_agents": 2}
    async with parked(1, interactive=True, on_park=takes_the_slot, engine=slots) as team:
        other = SlotLease(team.engine.slots)
        run = team.start(master=asks_a_person, w1=hangs)
        await team.seen("notice", "master", level="info")
        await team.settled()
        assert (other.held, team.session("master").turn.calls.open) == (True, ())
        await team.manager.kill_agent(team["master"].agent_id)
        assert (await run).status == "killed"
        other.close()
    [call] = [one for one in team.ledger.events("tool_call_finished") if one["call"] == "ask"]
    assert call["status"] == "failed"


async def leads_and_asks(agent):
    """Have a child work, and wait both for it and for a person."""
    await once(agent, "spawn", "spawn_child", prompt="work", name="w1")
    asked = once(agent, "ask", "ask_user", question="which?", options=["red", "blue"])
    await asyncio.gather(asked, once(agent, "wait", "wait_for_message"))


@pytest.mark.parametrize("master", [leads, leads_and_asks])
async def test_a_turn_that_is_given_up_just_before_its_calls_are_made_again_ends_them(
    parked, master
):
    """Of several calls a task for each is on its way by then, and has not begun."""

    async def given_up(*args):
        state = await read(*args)
        turn = team.session("master").turn
        team.engine.start_soon(turn.abandon(), name="give up")  # before those tasks
        team.engine.start_soon(team.manager.kill_agent(team["master"].agent_id), name="kill")
        return state

    async with parked(1, interactive=True) as team:
        read = team.store.state
        vars(team.store)["state"] = given_up
        assert (await team.run(master=master, w1=hangs)).status == "killed"
    ended = team.ledger.events("tool_call_finished", "master")
    ends = {one["call"]: one["status"] for one in ended}
    assert ends.pop("spawn") == "completed"
    assert set(ends.values()) == {"failed"}
    assert len(ended) == 1 + len(ends)
