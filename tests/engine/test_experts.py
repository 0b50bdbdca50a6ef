"""Consulting experts: who answers, what it may use, and what the asker hears."""

from __future__ import annotations

import pytest

from prsm_core.domain.agents import AgentRole, AgentState

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
        assert list(team.manager.agents) == [agent.id]

    await as_master(script, settings=SETTINGS)


async def test_those_who_may_consult_are_told_of_the_experts(as_master):
    async def script(agent, team):
        await agent.spawn(name="helper")
        await agent.collect()

    team = await as_master(script, settings=SETTINGS)
    for name in ("master", "helper"):
        assert "- security: Finds holes." in team[name].descriptor.system_prompt
