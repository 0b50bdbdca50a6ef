"""What the specification names and is another fact here: messages, functions of a provider."""

from __future__ import annotations

import asyncio

import pytest
from prsm_testing.sim.world import PeerTools

from prsm_core.domain.messages import MessageType
from prsm_core.errors import ProviderNotAvailableError
from prsm_core.interfaces.provider import ProviderCapabilities

EXPERTS = {"experts": {"sql": {"name": "SQL", "system_prompt": "You know SQL."}}}
MAILED = {"question", "answer", "task_result", "user_prompt", "peer"}


async def everything_that_is_told(team):
    """Run a tree in which each kind of message has its one occasion, but for results."""

    async def master(agent):
        await agent.spawn("count", name="a")
        assert (await agent.call("wait_for_message"))["text"] == "half way"
        question = await agent.call("wait_for_message")
        await agent.call(
            "respond_to_child",
            child_id="a",
            correlation_id=question["correlation_id"],
            response="both",
        )
        assert (await agent.collect())[0]["name"] == "a"
        await agent.spawn("wait", name="b")
        await team.seen("turn_started", "b")
        await team.manager.kill_agent(team["b"].agent_id, "not needed")
        await agent.collect()
        await team.engine.prompting.prompt(agent.id, "be brief", "queue")
        assert (await agent.call("wait_for_message"))["text"] == "be brief"
        await agent.complete()

    async def a(agent):
        await agent.call("report_progress", status="half", percent=50)
        await agent.call("message_send", to="master", text="half way")
        answer = await agent.call("consult_expert", expert_id="sql", question="which join?")
        assert answer["result"]["summary"] == "inner"
        assert (await agent.call("ask_parent", question="one or both?"))["answer"] == "both"
        await agent.complete("counted")

    async def e1(agent):
        await agent.complete("inner")

    async def b(agent):
        await agent.hang()

    return await team.run("do it", master=master, a=a, b=b, e1=e1)


def told(team):
    """Return each kind of message as the events of a run tell it: from whom to whom, what of it."""
    ids = dict(team.ledger.rows("SELECT agent_id, name FROM agents"))

    def mail(kind, sender=None):
        return [
            (ids.get(event["from"]), ids[event["to"]])
            for event in team.ledger.events("message_routed")
            if event["kind"] == kind and sender in {None, ids.get(event["from"])}
        ]

    births = [
        (ids[event["parent"]], event["name"], event["role"], event["prompt"])
        for event in team.ledger.events("agent_spawned")
        if event["call"] is not None
    ]
    return {
        "question": mail("question"),
        "answer": mail("answer"),
        "task_result": [pair for pair in mail("task_result") if pair[0] != "e1"],
        "user_prompt": mail("user_prompt"),
        "peer": mail("peer"),
        "progress_update": [
            (event["agent"], event["status"]) for event in team.ledger.events("progress_reported")
        ],
        "spawn_request": [birth for birth in births if birth[2] != "expert"],
        "expert_request": [birth for birth in births if birth[2] == "expert"],
        "expert_response": mail("task_result", sender="e1"),
        "kill_signal": [
            (event["agent"], event["reason"])
            for event in team.ledger.events("agent_state_changed")
            if event["to"] == "killed"
        ],
    }


@pytest.mark.requirement("E35")
async def test_each_kind_of_message_is_one_fact_of_the_ledger(opened):
    tools = PeerTools()
    async with opened(settings=EXPERTS, tools=tools.table()) as team:
        tools.mail = team.engine.peers
        assert (await everything_that_is_told(team)).status == "completed"
    facts = told(team)
    assert facts.keys() == set(MessageType)
    assert facts == {
        "question": [("a", "master")],
        "answer": [("master", "a")],
        "task_result": [("a", "master"), ("b", "master")],
        "user_prompt": [(None, "master")],
        "peer": [("a", "master")],
        "progress_update": [("a", "half")],
        "spawn_request": [("master", "a", "worker", "count"), ("master", "b", "worker", "wait")],
        "expert_request": [("a", "e1", "expert", "which join?")],
        "expert_response": [("e1", "a")],
        "kill_signal": [("b", "not needed")],
    }
    mailed = [kind for (kind,) in team.ledger.rows("SELECT type FROM inbox")]
    assert set(mailed) == MAILED
    assert len(mailed) == sum(len(facts[kind]) for kind in (*MAILED, "expert_response"))


@pytest.mark.requirement("E68")
async def test_an_agent_is_run_and_a_text_is_asked_for_by_the_same_two_functions_of_a_provider(
    opened,
):
    """Of the one session the tools are the agent's; the other has none, and is one answer."""
    settings = {"sessions": {"auto_name": "model"}, "defaults": {"provider": "script"}}
    given, is_asked = {}, asyncio.Event()

    async def master(agent):
        given[agent.name] = {tool.name for tool in agent.host.tools}
        await is_asked.wait()
        naming = [task for task in asyncio.all_tasks() if task.get_name() == "naming the session"]
        await asyncio.gather(*naming)
        await agent.complete("done")

    async def namer(agent):
        is_asked.set()
        given[agent.name] = {tool.name for tool in agent.host.tools}
        outcome = await agent.host.call_tool("spawn_child", {"prompt": "x"})
        assert outcome.is_error
        await agent.say("The small shop")

    async with opened(settings=settings) as team:
        result = await team.run("mend the shop", **{"master": master, "master-name": namer})
        [session] = await team.store.sessions()
    assert (result.status, session.name) == ("completed", "The small shop")
    assert "spawn_child" in given["master"]
    assert given["master-name"] == set()
    [led], [asked] = team.provider.requests["master"], team.provider.requests["master-name"]
    assert (led.native_tools, asked.native_tools) == ({"Read", "Glob", "Grep"}, frozenset())
    assert asked.mcp_servers == {}
    assert len(team.provider.contexts["master-name"]) == 1
    assert team.ledger.rows("SELECT name FROM agents") == [("master",)]


@pytest.mark.requirement("E68")
async def test_a_provider_that_does_not_support_a_master_is_refused_before_anything_is_written(
    opened,
):
    capabilities = ProviderCapabilities(enforcement="pre_tool", supports_master=False)
    async with opened(capabilities=capabilities) as team:
        with pytest.raises(ProviderNotAvailableError, match="script cannot lead a run"):
            await team.run("do it", {"provider": "script"})
        assert list(await team.store.sessions()) == []
    assert team.provider.requests == {}
