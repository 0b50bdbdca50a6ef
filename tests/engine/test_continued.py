"""An agent that begins with the conversation of another one, which goes on undisturbed."""

from __future__ import annotations

import pytest

from prsm_core.domain.writes import AgentSpawned
from tests.engine.deaths import dies_after, go_on, run_to_death


def told(context):
    return [(message.role, message.content) for message in context.history]


async def owner(agent):
    await agent.say("I have read src/core: parse(text) -> Tree")
    await agent.call("ask_parent", question="go on?")
    await agent.say("Now I write src/core")
    await agent.complete("core is done")


async def ask_the_owner(agent):
    """Have the owner of a region asked, while it works, by one that continues it."""
    await agent.spawn("write src/core", name="owner")
    asked = await agent.call("wait_for_message")
    await agent.spawn("signature of parse, only", name="asked", continues="owner")
    (answer,) = await agent.collect()
    assert answer["name"] == "asked", answer
    about = {"child_id": "owner", "correlation_id": asked["correlation_id"]}
    await agent.call("respond_to_child", response="yes", **about)
    await agent.collect()
    await agent.complete()


async def test_it_knows_what_the_other_had_said_by_then_and_the_other_knows_nothing_of_it(opened):
    async def asked(agent):
        await agent.say("parse(text) -> Tree")
        await agent.complete("parse(text) -> Tree")

    async with opened(is_program=True) as team:
        await team.run("do it", master=ask_the_owner, owner=owner, asked=asked)
        (context,) = team.provider.contexts["asked"]
        owner_id = team["owner"].agent_id
        (others,) = team.provider.contexts["owner"]
    history = told(context)
    assert [text for role, text in history if role == "user"] == ["write src/core"]
    assert ("assistant", "I have read src/core: parse(text) -> Tree") in history
    assert "ask_parent" in history[-1][1]
    assert context.current_message.content == "signature of parse, only"
    assert others.history == ()
    assert context.token_budget.used > 0
    (born,) = [e for e in team.ledger.events("agent_spawned") if e["name"] == "asked"]
    assert born["continues"] == owner_id


async def test_a_models_call_cannot_name_another_ones_conversation(opened):
    async def master(agent):
        await agent.spawn(name="w1")
        await agent.collect()
        refused = await agent.refused("spawn_child", prompt="work", continues="w1")
        assert refused == "invalid_arguments"
        await agent.complete()

    async with opened() as team:
        await team.run("do it", master=master)


async def test_a_program_names_its_own_children_alone(opened):
    async def lead(agent):
        code = await agent.refused("spawn_child", prompt="work", continues="w1")
        assert code == "unknown_agent"
        await agent.complete()

    async def master(agent):
        await agent.spawn(name="w1")
        await agent.collect()
        await agent.spawn(name="w2")
        await agent.collect()
        await agent.complete()

    async with opened(is_program=True) as team:
        await team.run("do it", master=master, w2=lead)


async def test_it_still_knows_it_after_a_death_and_one_can_be_continued_in_its_turn(opened):
    async def asked(agent):
        await agent.complete(f"{agent.name} knows")

    async def master(agent):
        known = {child.name for child in agent.host.children()}
        if "w1" not in known:
            await agent.spawn("one", name="w1")
            await agent.collect()
        if "w2" not in known:
            dies_after(team, AgentSpawned)
            await agent.spawn("two", name="w2", continues="w1")
        await agent.collect()
        await agent.spawn("three", name="w3", continues="w2")
        await agent.collect()
        await agent.complete()

    async with opened(check=False, is_program=True) as team:
        await run_to_death(team, master=master, w1=asked, w2=asked, w3=asked)
    async with opened(is_program=True) as again:
        done = await go_on(again, master=master, w1=asked, w2=asked, w3=asked)
        assert done.status == "completed"
        texts = {
            name: [text for role, text in told(again.provider.contexts[name][0]) if role == "user"]
            for name in ("w2", "w3")
        }
        forked = await again.engine.fork()
        state = await again.store.state(forked)
    assert texts == {"w2": ["one"], "w3": ["one", "two"]}
    ids = {now.agent.name: now.agent.agent_id for now in state.agents}
    continued = {now.agent.name: now.agent.continues for now in state.agents}
    assert continued == {"master": None, "w1": None, "w2": ids["w1"], "w3": ids["w2"]}


@pytest.mark.parametrize("restart", ["restart", "reuse"])
async def test_who_is_restarted_goes_on_with_it_and_who_is_used_again_knows_nothing(
    opened, restart
):
    async def asked(agent):
        await agent.complete("known")

    async def master(agent):
        await agent.spawn("one", name="w1")
        await agent.collect()
        await agent.spawn("two", name="w2", continues="w1")
        await agent.collect()
        if restart == "restart":
            await agent.call("restart_child", child_id="w2", prompt="three")
        else:
            await agent.call("restart_child", child_id="w1", prompt="busy")
            answer = await agent.call("spawn_child", prompt="three")
            assert (answer["name"], answer["reused"]) == ("w2", True)
            await agent.collect(2)
        await agent.complete()

    async with opened(is_program=True) as team:
        await team.run("do it", master=master, w1=asked, w2=asked)
        _, last = team.provider.contexts["w2"]
    users = [text for role, text in told(last) if role == "user"]
    assert users == (["one", "two"] if restart == "restart" else [])
