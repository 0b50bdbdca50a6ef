"""recommend_model: the best models for a task, of those that a child may run on."""

from __future__ import annotations

import pytest

from prsm_core.builtin.plugin import prsm_model_scorers
from prsm_core.domain.agents import SpawnRequest
from prsm_core.engine.providers.levels import LEVELS, beyond_regions
from prsm_core.interfaces.provider import ProviderCapabilities, ProviderSpec
from prsm_core.interfaces.scorer import ModelScorerSpec

BUILTIN = tuple(prsm_model_scorers())
SETTINGS = {
    "model_registry": {
        "small": {"provider": "script", "tier": "economy", "cost_factor": 0.1},
        "middle": {"provider": "script", "tier": "strong", "affinities": {"coding": 0.2}},
        "coder": {"provider": "script", "tier": "strong", "affinities": {"coding": 0.9}},
        "large": {"provider": "script", "tier": "frontier", "cost_factor": 3},
        "far": {"provider": "elsewhere", "tier": "frontier", "cost_factor": 0.1},
    },
    "models": {"little": {"provider": "script", "model_id": "small"}},
}
CODING = "Implement the parser and fix the bug."


def peers(*names):
    return {**SETTINGS, "defaults": {"peer_models": list(names)}}


async def recommended(agent, complexity=None, task=CODING):
    """Return the names of the models, best first."""
    given = {} if complexity is None else {"complexity": complexity}
    answer = await agent.call("recommend_model", task_description=task, **given)
    return [entry["model"].removeprefix("script/") for entry in answer["models"]]


@pytest.mark.requirement("E61")
async def test_the_best_models_for_a_task_are_told_with_tier_cost_and_reason(as_master):
    async def script(agent, team):
        told = {"task_description": CODING, "complexity": "moderate"}
        answer = await agent.call("recommend_model", **told)
        assert answer["category"] == "coding"
        first, second, third = answer["models"]
        assert [first["model"], second["model"]] == ["script/coder", "script/middle"]
        assert first["score"] > second["score"]
        assert (first["tier"], first["cost_factor"], first["speed_factor"]) == ("strong", 1, 1)
        assert first["reason"] == "strong fits a moderate task; coding 0.9; cost 1, speed 1"
        assert (third["model"], third["tier"]) == ("script/large", "frontier")

    await as_master(script, settings=SETTINGS, scorers=BUILTIN)


@pytest.mark.requirement("E61")
async def test_the_complexity_comes_first_and_only_models_strong_enough_are_told(as_master):
    async def script(agent, team):
        assert await recommended(agent, "simple") == ["small", "coder", "middle"]
        assert await recommended(agent, "complex") == ["large", "coder", "middle"]
        assert len(await recommended(agent)) == 3

    await as_master(script, settings=SETTINGS, scorers=BUILTIN)


@pytest.mark.requirement("E61")
async def test_a_recommended_model_is_one_that_a_child_may_be_given(as_master):
    async def script(agent, team):
        answer = await agent.call("recommend_model", task_description=CODING, complexity="moderate")
        for entry in answer["models"]:
            await agent.spawn(model=entry["model"], complexity="moderate")
        await agent.collect(3)

    team = await as_master(script, settings=SETTINGS, scorers=BUILTIN)
    models = [team[name].descriptor.model for name in ("w1", "w2", "w3")]
    assert models == ["coder", "middle", "large"]


@pytest.mark.requirement("E63")
async def test_where_there_are_peers_no_other_model_is_asked_for_or_recommended(as_master):
    async def script(agent, team):
        assert await recommended(agent, "moderate") == ["middle"]
        assert await recommended(agent, "simple") == ["small", "middle"]
        assert await recommended(agent) == ["small", "middle"]
        for other in ("coder", "script/large", "unheard-of"):
            refused = await agent.refused("spawn_child", prompt="x", model=other)
            assert refused == "model_not_allowed"
        several = [{"prompt": "x", "model": "middle"}, {"prompt": "y", "model": "large"}]
        refused = await agent.refused("spawn_children_parallel", children=several)
        assert refused == "model_not_allowed"
        await agent.spawn(name="a", model="little")
        await agent.spawn(name="b", model="script/middle")
        await agent.collect(2)

    team = await as_master(script, settings=peers("little", "middle"), scorers=BUILTIN)
    assert [team[name].descriptor.model for name in ("a", "b")] == ["small", "middle"]
    assert len(team.manager.roster.records()) == 3


@pytest.mark.requirement("E63")
async def test_a_peer_that_is_not_installed_restricts_all_the_same(as_master):
    async def script(agent, team):
        answer = await agent.call("recommend_model", task_description=CODING)
        assert [model["model"] for model in answer["models"]] == ["script/default"], "its own"
        assert await agent.refused("spawn_child", prompt="x", model="large") == "model_not_allowed"
        await agent.spawn(complexity="simple")
        await agent.collect()

    missing = {"gone": {"provider": "elsewhere", "model_id": "far"}}
    settings = {**peers("gone"), "models": missing}
    team = await as_master(script, settings=settings, scorers=BUILTIN)
    assert team["w1"].descriptor.model == team["master"].descriptor.model


async def test_only_installed_providers_that_enforce_enough_are_recommended(as_master):
    async def script(agent, team):
        assert await recommended(agent, "complex") == ["elsewhere/far", "large", "coder"]
        team.engine.enforcement.refused["elsewhere"] = "it enforces nothing"
        assert await recommended(agent, "complex") == ["large", "coder", "middle"]

    other = ProviderSpec(name="elsewhere", summary="", factory="never:built")
    await as_master(script, settings=SETTINGS, scorers=BUILTIN, others=(other,))


async def test_a_child_is_recommended_only_what_its_grant_has(as_master):
    granted = frozenset({"script/middle", "script/small"})

    async def script(agent, team):
        request = SpawnRequest(prompt="x", parent_id=agent.id, model="middle", models=granted)
        await team.manager.spawn_agent(request)
        await agent.collect()

    async def child(agent):
        assert await recommended(agent) == ["small", "middle"]
        assert await recommended(agent, "complex") == ["middle"]
        await agent.complete()

    await as_master(script, settings=SETTINGS, scorers=BUILTIN, team={"w1": child})


async def test_a_scorer_that_fails_is_told_and_the_others_decide(as_master):
    def fails(model, task):
        raise LookupError("no rankings yet")

    def likes_the_middle(model, task):
        return 1.0 if model.model_id == "middle" else None

    scorers = (
        *BUILTIN,
        ModelScorerSpec(name="broken", summary="", weight=5, score=fails),
        ModelScorerSpec(name="own", summary="", weight=9, score=likes_the_middle),
    )

    async def script(agent, team):
        assert await recommended(agent, "moderate") == ["middle", "coder", "large"]

    team = await as_master(script, settings=SETTINGS, scorers=scorers)
    notices = [notice["text"] for notice in team.ledger.events("notice")]
    notices = [text for text in notices if "scorer" in text]  # others tell of the settings
    assert notices == ["model scorer broken is left out: LookupError: no rankings yet"]


async def test_a_task_must_be_given(as_master):
    async def script(agent, team):
        assert await agent.refused("recommend_model", task_description=" ") == "spawn_failed"
        assert await agent.refused("recommend_model") == "invalid_arguments"

    await as_master(script)


async def test_a_program_is_told_whose_agents_no_region_holds_and_a_model_may_not_ask(opened):
    asked = {"task_description": CODING, "regions": True}

    async def program(agent):
        answer = await agent.call("recommend_model", **asked)
        assert set(answer["beyond_regions"]) == {"script"}
        assert "its own tools run as it likes" in answer["beyond_regions"]["script"]
        plain = await agent.call("recommend_model", task_description=CODING)
        assert "beyond_regions" not in plain
        await agent.complete()

    async def model(agent):
        assert await agent.refused("recommend_model", **asked) == "invalid_arguments"
        await agent.complete()

    for is_program, master in ((True, program), (False, model)):
        async with opened(is_program=is_program) as team:
            team.provider.capabilities = ProviderCapabilities(enforcement="sandbox")
            assert (await team.run("do it", master=master)).status == "completed"


@pytest.mark.parametrize("level", [*LEVELS, "odd"])
def test_a_region_holds_who_asks_before_each_tool_or_for_each_edit(level):
    for asks_edits in (False, True):
        given = ProviderCapabilities(enforcement=level, asks_edits=asks_edits)
        holds = level == "pre_tool" or (level == "approval" and asks_edits)
        assert (beyond_regions(given) == "") is holds
