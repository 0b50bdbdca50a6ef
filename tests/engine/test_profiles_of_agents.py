"""Workers and reviewers that the settings describe: spawned by their id, never with more."""

from __future__ import annotations

import pytest

PROFILES = {
    "experts": {
        "tester": {
            "role": "worker",
            "system_prompt": "You test what others wrote.",
            "description": "Runs and writes tests.",
            "tools": ["Read", "Bash"],
            "model": "script/small",
        },
        "strict": {"role": "reviewer", "system_prompt": "You forgive nothing."},
        "wise": {"system_prompt": "You know.", "description": "Knows."},
    }
}


@pytest.mark.requirement("U20")
async def test_a_worker_or_reviewer_of_the_settings_is_spawned_by_its_id(as_master):
    async def script(agent, team):
        await agent.spawn(name="a", profile="tester")
        await agent.spawn(name="b", profile="strict")
        both = [{"prompt": "x", "profile": "tester"}, {"prompt": "y"}]
        await agent.call("spawn_children_parallel", children=both)
        await agent.collect(4)

    team = await as_master(script, settings=PROFILES)
    a, b = team["a"].descriptor, team["b"].descriptor
    assert (a.role, a.model, a.tools) == ("worker", "small", {"Read", "Bash"})
    assert a.grant.tools == {"Read", "Bash"}
    assert "You test what others wrote." in a.system_prompt
    assert "task_complete" in a.system_prompt
    assert (b.role, b.tools) == ("reviewer", {"Read", "Glob", "Grep"})
    assert "You forgive nothing." in b.system_prompt
    assert [team[name].descriptor.model for name in ("w1", "w2")] == ["small", "default"]


@pytest.mark.requirement("U20")
async def test_who_may_spawn_is_told_of_them(as_master):
    async def script(agent, team):
        await agent.spawn(depth=0)
        await agent.collect()

    team = await as_master(script, settings=PROFILES)
    prompt = team["master"].descriptor.system_prompt
    assert "Profiles, for spawn_child:\n- tester (worker): Runs and writes tests." in prompt
    assert "- strict (reviewer): " in prompt
    assert "Experts, for consult_expert:\n- wise: Knows." in prompt
    assert "tester" not in team["w1"].descriptor.system_prompt


async def test_a_profile_narrows_and_is_never_more_than_its_parent_may_hand_down(as_master):
    async def script(agent, team):
        await agent.spawn(name="a", tools=["Read", "Edit"])
        await agent.spawn(name="b", profile="tester", tools=["Read", "Edit"], model="script/big")
        await agent.collect(2)

    async def child(agent):
        await agent.spawn(name="c", profile="tester")
        await agent.collect()
        await agent.complete()

    team = await as_master(script, settings=PROFILES, team={"a": child})
    assert team["c"].descriptor.tools == {"Read"}
    assert team["b"].descriptor.tools == {"Read"}
    assert team["b"].descriptor.model == "big"


async def test_a_child_with_a_profile_is_nobody_elses_to_use_again(as_master):
    plain = {"experts": {"tester": {"role": "worker", "system_prompt": "You test."}}}

    async def script(agent, team):
        for more in ({"profile": "tester"}, {}, {"profile": "tester"}):
            answer = await agent.call("spawn_child", prompt="x", **more)
            assert not answer["reused"]
            await agent.collect()

    await as_master(script, settings=plain)


async def test_what_is_none_is_refused(as_master):
    async def script(agent, team):
        wrong = {"prompt": "x", "profile": "nobody"}
        outcome = await agent.outcome("spawn_child", wrong)
        assert outcome.data["error"]["code"] == "unknown_profile"
        assert outcome.data["error"]["hint"] == "profiles: tester, strict"
        parallel = {"children": [{"prompt": "x"}, wrong]}
        assert await agent.refused("spawn_children_parallel", **parallel) == "unknown_profile"
        assert await agent.refused("spawn_child", prompt="x", profile="wise") == "unknown_profile"
        asked = {"expert_id": "tester", "question": "why?"}
        assert await agent.refused("consult_expert", **asked) == "unknown_expert"
        other = {"prompt": "x", "profile": "strict", "role": "worker"}
        assert await agent.refused("spawn_child", **other) == "spawn_failed"

    team = await as_master(script, settings=PROFILES)
    assert len(team.manager.roster.records()) == 1


@pytest.mark.requirement("E63")
async def test_a_model_that_an_agent_names_for_a_profile_must_be_a_peer(as_master):
    async def script(agent, team):
        wrong = {"prompt": "x", "profile": "tester", "model": "script/large"}
        assert await agent.refused("spawn_child", **wrong) == "model_not_allowed"
        await agent.spawn(name="a", profile="tester")  # what the user has configured holds
        await agent.collect()

    settings = {**PROFILES, "defaults": {"peer_models": ["script/other"]}}
    team = await as_master(script, settings=settings)
    assert team["a"].descriptor.model == "small"
