"""Calls that nobody goes on with, since an engine died, end in the log of the next one."""

from __future__ import annotations

import pytest

from prsm_core.domain.permissions import PermissionRequest
from prsm_core.domain.writes import AgentEnded
from prsm_core.engine.turns.going_on import CUT_OFF, WITHHELD
from prsm_core.errors import StoreError
from tests.engine.deaths import DIED, die, dies_after, go_on, run_to_death
from tests.engine.harness import Actor
from tests.engine.test_going_on import THREADS


def ends(team, agent):
    """Return how the calls of an agent ended, as it is told, by call."""
    told = team.ledger.events("tool_call_finished", agent)
    calls = [event["call"] for event in told]
    assert len(set(calls)) == len(calls), "each ends once"
    return {event["call"]: (event["status"], event["error"]) for event in told}


def beside(agent, tool, **arguments):
    """Make a call beside what an agent does else."""
    agent.session.provider.services.start_soon(agent.outcome, tool, arguments, name="beside")


async def test_a_vendors_call_that_nobody_saw_the_end_of_is_told_as_cut_off(opened):
    async def master(agent):
        await agent.start_tool("v1", "Read", path="x.py")
        await agent.end_tool("v1")
        await agent.start_tool("v2", "Bash", command="make")
        await die(team)

    async def mastered(agent):
        await agent.complete()

    async with opened(check=False) as team:
        await run_to_death(team, master=master)
    async with opened() as again:
        assert (await go_on(again, master=mastered)).status == "completed"
    told = ends(again, "master")
    assert (told["v1"], told["v2"]) == (("completed", None), ("unknown", CUT_OFF))


async def test_a_vendors_call_that_a_person_had_not_allowed_is_told_never_to_have_run(opened):
    """A permission is durable before its call begins; the model need not look what it did."""
    told = []

    async def master(agent):
        await agent.use(input_tokens=1)  # the thread is in the ledger with the next step
        await agent.start_tool("v1", "Bash", command="make")
        await agent.start_tool("v2", "Bash", command="make it")
        asked = PermissionRequest(agent_id=agent.id, tool="Bash", command="make it", call_id="v2")
        agent.session.provider.services.start_soon(agent.host.authorize, asked, name="asks")
        await team.seen("permission_requested")
        await die(team)

    async def mastered(agent):
        told.append(agent.text)
        await agent.complete()

    threads = {"gives_tokens": True, "capabilities": THREADS, "interactive": True}
    async with opened(check=False, **threads) as team:
        await run_to_death(team, master=master)
    async with opened(**threads) as again:
        assert (await go_on(again, master=mastered)).status == "completed"
    found = ends(again, "master")
    assert (found["v1"], found["v2"]) == (("unknown", CUT_OFF), ("failed", WITHHELD))
    assert "It may have run: look" in told[0]
    assert WITHHELD in told[0]


async def test_calls_of_an_agent_whose_end_was_decided_end_with_it(opened):
    """The ledger knew that the one above it was to end, and of the first end below it."""

    async def master(agent):
        await agent.spawn(name="a")
        await team.seen("tool_call_started", "b", tool="Bash")
        dies_after(team, AgentEnded)
        with pytest.raises(StoreError, match=DIED):
            await team.manager.kill_agent(team["a"].agent_id, "enough")
        await die(team)

    async def a(agent):
        await agent.spawn(name="b")
        await agent.hang()

    async def b(agent):
        await agent.spawn(name="c")
        beside(agent, "wait_for_message")
        await team.seen("tool_call_started", "b", tool="wait_for_message")
        await agent.start_tool("v1", "Bash", command="make")
        await agent.hang()

    async def mastered(agent):
        [result] = await agent.collect()
        assert result["error"] == "enough"
        await agent.complete()

    async with opened(check=False) as team:
        await run_to_death(team, master=master, a=a, b=b, c=Actor.hang)
    async with opened() as again:
        assert (await go_on(again, master=mastered)).status == "completed"
    begun = {
        event["tool"]: event["call"] for event in again.ledger.events("tool_call_started", "b")
    }
    told = ends(again, "b")
    assert told.keys() == set(begun.values())
    ends_of = {tool: told[call][0] for tool, call in begun.items()}
    assert (ends_of["wait_for_message"], ends_of["Bash"]) == ("failed", "unknown")
