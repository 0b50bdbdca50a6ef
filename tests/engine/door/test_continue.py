"""A follow-up to a master of an earlier process: what it keeps, and when there is none."""

from __future__ import annotations

import pytest

from prsm_core.engine.door.local import LocalApp
from prsm_core.errors import ConfigError
from prsm_core.interfaces.frontend import RunOptions
from tests.engine.harness import SESSION

pytestmark = pytest.mark.requirement("D3")


def door(team, **options):
    return LocalApp(team.engine, RunOptions(provider="script", **options), team.store, SESSION)


async def lead(agent):
    await agent.say("the first run says this")
    await agent.spawn("work", name="helper")
    await agent.collect()
    await agent.complete("the first run")


@pytest.mark.requirement("E5")
async def test_a_master_of_an_earlier_process_goes_on(opened):
    async with opened() as first:
        await first.run(master=lead)
        before = first["master"].agent_id

    async def more(agent):
        assert agent.text == "more"
        await agent.call("restart_child", child_id="helper", prompt="again")
        [again] = await agent.collect()
        await agent.spawn("work", name="other")
        [new] = await agent.collect()
        await agent.complete(f"{again['summary']}, {new['summary']}")

    async with opened() as second:
        app = door(second)
        second.provider.behaviours.update(master=more)
        run = await app.runs.follow_up("more")
        result = await run.result()
        assert (result.error, result.summary) == (None, "helper is done, other is done")
        [master] = (await app.agents.tree()).agents
        assert (master.id, second["master"].incarnation) == (before, 2)
        assert [node.name for node in master.children] == ["helper", "other"]
        [context] = second.provider.contexts["master"]
        assert "the first run says this" in str(context.history), "no vendor's thread holds it"
        assert [run["status"] for run in second.ledger.events("run_finished")] == ["completed"] * 2


async def test_it_goes_on_in_the_thread_that_its_vendor_holds(opened):
    async with opened(gives_tokens=True) as first:
        await first.run(master=lead)
    async with opened(gives_tokens=True) as second:
        await (await door(second).runs.follow_up("more")).result()
        [request] = second.provider.requests["master"]
        assert request.resume_token == "thread-master"  # noqa: S105 - no secret
        [context] = second.provider.contexts["master"]
        assert context.history == ()


async def test_one_that_was_cut_off_is_refused_by_name(opened):
    async with opened(check=False) as first:
        first.start(master=lambda agent: agent.hang())
        await first.seen("turn_started", "master")
    async with opened() as second:
        app = door(second)
        with pytest.raises(ConfigError, match="master was cut off") as refused:
            await app.runs.follow_up("more")
        assert refused.value.code == "not_ended"
        assert (await (await app.runs.start("another")).result()).status == "completed"
        assert (await (await app.runs.follow_up("more")).result()).status == "completed"
