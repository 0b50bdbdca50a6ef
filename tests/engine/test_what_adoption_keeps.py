"""Agents that an engine has taken over and that wait hold no more than if it had begun them."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

from prsm_core.domain.sessions import AgentNow, SessionState
from tests.engine.deaths import die, go_on, run_to_death

CHILDREN = ("a", "b")


def kept(*kinds):
    """Return what there is in memory of these kinds."""
    gc.collect()
    return [one for one in gc.get_objects() if isinstance(one, kinds)]


async def master(agent):
    """Spawn the children and wait; with a limit, so that it is no deadlock."""
    for name in CHILDREN:
        await agent.spawn(name=name)
    await agent.call("wait_for_message", timeout=3600)


async def waits(agent):
    """Wait for a message that does not come."""
    await agent.call("wait_for_message")


async def left_waiting(opened):
    """Leave a session in which all but one wait in a call when their engine dies."""

    async def last(agent):
        for name in ("master", "a"):
            await team.seen("agent_state_changed", name, to="waiting_for_child")
        await die(team)

    async with opened(check=False) as team:
        await run_to_death(team, master=master, a=waits, b=last)


async def looked_at(opened, look):
    """Go on with the session; return what `look` sees of the team once all is as it was."""
    seen: list[Any] = []

    async def last(agent):
        await again.settled()
        seen.append(look(again))
        kill = again.manager.kill_agent(again["master"].agent_id, "enough")
        again.engine.start_soon(kill, name="kill")
        await agent.hang()

    async with opened() as again:
        assert (await go_on(again, master=master, a=waits, b=last)).status == "killed"
    return seen[0]


async def test_nobody_keeps_how_agents_were_left_that_wait_again(opened):
    """That is the whole session as its ledger had it, beside what each agent has by now."""
    await left_waiting(opened)
    before = kept(AgentNow, SessionState)

    def look(team):
        known = {id(one) for one in before}
        left = [one for one in kept(AgentNow, SessionState) if id(one) not in known]
        return [getattr(one, "agent", one) for one in left]

    assert await looked_at(opened, look) == []


async def test_an_agent_that_waits_again_in_one_call_does_so_in_its_own_task(opened):
    await left_waiting(opened)

    def look(team):
        turns = {name: team.session(name).turn for name in ("master", "a")}
        return [(turn.calls.open[0].task, team.task(name)) for name, turn in turns.items()]

    for runs_in, own in await looked_at(opened, look):
        assert isinstance(own, asyncio.Task)
        assert runs_in is own


async def test_agents_that_are_taken_over_have_one_of_what_they_have_in_common(opened):
    await left_waiting(opened)

    def look(team):
        return [team[name].descriptor for name in CHILDREN]

    one, other = await looked_at(opened, look)
    shared = ("session_id", "run_id", "provider", "model", "cwd", "parent_id", "tools", "grant")
    for name in (*shared, "labels", "mcp_servers"):
        assert getattr(one, name) is getattr(other, name), name
