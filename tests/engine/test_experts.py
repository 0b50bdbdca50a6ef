"""Consulting experts and peers: who answers, what it may use, and what the asker hears."""

from __future__ import annotations

import time

import pytest
from msgspec.structs import replace

from prsm_core.config.schema import Settings
from prsm_core.domain.agents import AgentRole, AgentState
from prsm_core.engine.tools.family import find_expert
from prsm_core.errors import ExpertNotFoundError
from prsm_core.interfaces.provider import ProviderStatus
from prsm_core.kit.clocks import SystemClock
from tests.engine.harness import ScriptedProvider

EXPERTS = {
    "security": {
        "description": "Finds holes.",
        "system_prompt": "You look for holes.",
        "tools": ["Read", "Bash", "Teleport"],
        "model": "keen",
    },
    "style": {"system_prompt": "You love order."},
}
SETTINGS = {
    "experts": EXPERTS,
    "models": {"keen": {"provider": "script", "model_id": "keen-1"}},
}


@pytest.mark.requirement("E53", "U20")
async def test_an_expert_answers_in_its_own_role_with_its_own_prompt_tools_and_model(as_master):
    async def script(agent, team):
        answer = await agent.call("consult_expert", expert_id="security", question="is it safe?")
        assert (answer["name"], answer["expert"], answer["state"]) == (
            "e1",
            "security",
            "completed",
        )
        assert answer["result"]["type"] == "task_result"
        assert answer["result"]["summary"] == "it is not"
        assert await agent.call("wait_for_message") == {
            "type": "nothing_left",
            "children": [{"agent_id": answer["agent_id"], "state": "completed"}],
            "progress": [],
        }

    async def e1(agent):
        assert agent.text == "is it safe?"
        await agent.complete("it is not")

    team = await as_master(script, team={"e1": e1}, settings=SETTINGS)
    expert = team["e1"].descriptor
    assert expert.role is AgentRole.EXPERT
    assert expert.model == "keen-1"
    assert expert.tools == {"Read", "Bash"}  # of the unknown one nothing can be handed down
    assert "You look for holes." in expert.system_prompt


@pytest.mark.requirement("E53")
async def test_who_consults_an_expert_waits_for_it_and_gives_its_slot_back(opened):
    async with opened(settings=SETTINGS, engine={"max_concurrent_agents": 1}) as team:

        async def master(agent):
            await agent.call("consult_expert", expert_id="style", question="is it neat?")
            await agent.complete()

        async def e1(agent):
            await team.seen("agent_state_changed", "master", to="waiting_for_expert")
            assert team["master"].state is AgentState.WAITING_FOR_EXPERT
            await agent.complete("yes")

        result = await team.run("do it", master=master, e1=e1)
    assert result.status == "completed"


async def test_an_experts_question_comes_back_at_once(as_master):
    async def script(agent, team):
        answer = await agent.call("consult_expert", expert_id="style", question="is it neat?")
        asked = answer["result"]
        assert (asked["type"], asked["text"]) == ("question", "which part?")
        await agent.call(
            "respond_to_child",
            child_id=answer["name"],
            correlation_id=asked["correlation_id"],
            response="all",
        )
        [result] = await agent.collect()
        assert result["summary"] == "all is neat"

    async def e1(agent):
        answer = await agent.call("ask_parent", question="which part?")
        await agent.complete(f"{answer['answer']} is neat")

    await as_master(script, team={"e1": e1}, settings=SETTINGS)


async def test_each_consultation_has_an_expert_of_its_own(as_master):
    async def script(agent, team):
        first = await agent.call("consult_expert", expert_id="style", question="a")
        second = await agent.call("consult_expert", expert_id="style", question="b")
        assert (first["name"], second["name"]) == ("e1", "e2")

    await as_master(script, settings=SETTINGS)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"expert_id": "nobody", "question": "a"}, "unknown_expert"),
        ({"expert_id": "style", "question": " "}, "spawn_failed"),
        ({"expert_id": "style"}, "invalid_arguments"),
    ],
)
async def test_a_refused_consultation_writes_nothing(as_master, arguments, code):
    async def script(agent, team):
        before = team.ledger.written()
        assert await agent.refused("consult_expert", **arguments) == code
        assert team.ledger.written() == before
        assert [r.agent_id for r in team.manager.roster.records()] == [agent.id]

    await as_master(script, settings=SETTINGS)


@pytest.mark.requirement("E38")
def test_an_expert_that_there_is_not_is_an_error_of_its_own():
    with pytest.raises(ExpertNotFoundError, match="there is no expert 'nobody'") as caught:
        find_expert(Settings.of(SETTINGS), "nobody")
    assert caught.value.hint is not None
    assert "style" in caught.value.hint


async def test_those_who_may_consult_are_told_of_the_experts(as_master):
    async def script(agent, team):
        await agent.spawn(name="helper")
        await agent.collect()

    team = await as_master(script, settings=SETTINGS)
    for name in ("master", "helper"):
        assert "- security: Finds holes." in team[name].descriptor.system_prompt


PEERS = {
    "defaults": {"peer_models": ["keen", "script/other"]},
    "models": SETTINGS["models"],
}


@pytest.mark.requirement("E54")
async def test_without_configuration_the_other_providers_are_the_peers(opened):
    async def e1(agent):
        await agent.complete(f"{agent.text} (turn {agent.turn})")

    other = ScriptedProvider(behaviours={"e1": e1}, gives_tokens=True)
    others, settings = [replace(other.spec(), name="other")], {"defaults": {"provider": "script"}}
    async with opened(others=others, settings=settings) as team:

        async def master(agent):
            listed = await agent.call("consult_peer", question="who?", peer="list")
            assert listed["peers"] == ["other/default"]
            first = await agent.call("consult_peer", question="one")
            again = await agent.call("consult_peer", question="two", thread_id=first["thread_id"])
            await agent.complete(again["result"]["summary"])

        result = await team.run("do it", master=master)
    assert result.summary == "two (turn 2)"
    assert [request.resume_token for request in other.requests["e1"]] == [None, "thread-e1"]


@pytest.mark.requirement("E54")
async def test_a_provider_that_cannot_be_used_is_no_peer(opened):
    absent = ScriptedProvider(status=ProviderStatus(available=False, reason="not there"))
    hidden = ScriptedProvider()
    others = [
        replace(absent.spec(), name="absent"),
        replace(hidden.spec(), name="hidden", selectable=False),
    ]
    async with opened(others=others, settings={"defaults": {"provider": "script"}}) as team:

        async def master(agent):
            listed = await agent.call("consult_peer", question="who?", peer="list")
            assert listed == {"peers": []}
            assert await agent.refused("consult_peer", question="a") == "unknown_peer"
            await agent.complete()

        await team.run("do it", master=master)


async def test_a_peer_gives_a_second_opinion_on_its_own_model(as_master):
    async def script(agent, team):
        listed = await agent.call("consult_peer", question="who?", peer="list")
        assert listed == {"peers": ["keen", "script/other"]}
        first = await agent.call("consult_peer", question="is it safe?")
        other = await agent.call("consult_peer", question="is it?", peer="script/other")
        assert (first["thread_id"], other["thread_id"]) == ("e1", "e2")
        assert first["result"]["summary"] == "asked: is it safe?"

    async def peer(agent):
        await agent.complete(f"asked: {agent.text}")

    team = await as_master(script, team={"e1": peer, "e2": peer}, settings=PEERS)
    assert [team[name].descriptor.model for name in ("e1", "e2")] == ["keen-1", "other"]
    assert team["e1"].descriptor.tools == {"Read", "Glob", "Grep"}


@pytest.mark.requirement("E54", "E68")
async def test_a_thread_with_a_peer_goes_on_where_it_stopped(as_master):
    async def script(agent, team):
        first = await agent.call("consult_peer", question="one")
        again = await agent.call("consult_peer", question="two", thread_id=first["thread_id"])
        assert again["thread_id"] == first["thread_id"]
        assert again["result"]["summary"] == "two, after 1 turn on thread-e1"

    async def e1(agent):
        before = agent.turn - 1
        await agent.complete(f"{agent.text}, after {before} turn on {agent.session.resume_token}")

    team = await as_master(script, team={"e1": e1}, settings=PEERS, gives_tokens=True)
    assert [request.resume_token for request in team.provider.requests["e1"]] == [None, "thread-e1"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"question": "a", "peer": "nobody"}, "unknown_peer"),
        ({"question": " "}, "spawn_failed"),
        ({"question": "a", "thread_id": "e9"}, "unknown_agent"),
        ({"question": "a", "thread_id": "master"}, "unknown_agent"),
        ({"peer": "list"}, "invalid_arguments"),
    ],
)
async def test_a_refused_question_to_a_peer_writes_nothing(as_master, arguments, code):
    async def script(agent, team):
        before = team.ledger.written()
        assert await agent.refused("consult_peer", **arguments) == code
        assert team.ledger.written() == before

    await as_master(script, settings=PEERS)


async def test_without_any_peer_the_answer_says_how_to_have_one(as_master):
    async def script(agent, team):
        assert await agent.call("consult_peer", question="who?", peer="list") == {"peers": []}
        assert await agent.refused("consult_peer", question="a") == "unknown_peer"

    await as_master(script)


async def test_an_expert_is_heard_after_a_resume_though_the_clock_was_set_back(opened):
    heard = []

    async def master(agent):
        heard.append(await agent.call("consult_expert", expert_id="style", question="is it neat?"))
        await agent.complete()

    async def hanging(agent):
        await agent.hang()

    async def e1(agent):
        await agent.complete("it is")

    async with opened(settings=SETTINGS) as team:
        running = team.start("do it", master=master, e1=hanging)
        await team.seen("agent_state_changed", "master", to="waiting_for_expert")
        await team.engine.shutdown()
        await running
    clock = SystemClock()
    clock.time = lambda: time.time() - 3600
    async with opened(settings=SETTINGS, clock=clock) as again:
        again.provider.behaviours.update(master=master, e1=e1)
        assert (await again.engine.resume()).status == "completed"
    [answer] = heard
    assert answer["result"]["summary"] == "it is"
