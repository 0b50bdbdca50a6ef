"""The model of a child: by the complexity of its task, within what agents may use."""

from __future__ import annotations

import pytest

from prsm_core.plugins.absent import Absent
from prsm_core.plugins.records import PluginRecord, PluginState

BROKEN = PluginRecord(
    name="far",
    distribution="prsm-far",
    version="1.0",
    state=PluginState.BROKEN,
    error="RuntimeError: boom",
)
SETTINGS = {
    "model_registry": {
        "small": {"provider": "script", "tier": "economy"},
        "middle": {"provider": "script", "tier": "strong"},
        "large": {"provider": "script", "tier": "frontier"},
        "far": {"provider": "elsewhere", "tier": "economy", "cost_factor": 0.1},
    },
    "models": {"little": {"provider": "script", "model_id": "small"}},
}


@pytest.mark.requirement("E51", "E64")
async def test_the_complexity_of_a_task_chooses_the_childs_model(as_master):
    async def script(agent, team):
        for name, complexity in [("a", "simple"), ("b", "moderate"), ("c", "complex")]:
            await agent.spawn(name=name, complexity=complexity)
        wanted = [{"prompt": "x", "name": "d", "complexity": "complex"}, {"prompt": "y"}]
        await agent.call("spawn_children_parallel", children=wanted)
        await agent.collect(5)

    team = await as_master(script, settings=SETTINGS)
    models = [team[name].descriptor.model for name in ("a", "b", "c", "d", "w1")]
    assert models == ["small", "middle", "large", "large", team["master"].descriptor.model]


@pytest.mark.requirement("E51", "E64")
async def test_a_named_model_must_fit_the_complexity(as_master):
    async def script(agent, team):
        weak = {"prompt": "x", "model": "little", "complexity": "complex"}
        assert await agent.refused("spawn_child", **weak) == "model_unfit"
        assert await agent.refused("spawn_children_parallel", children=[weak]) == "model_unfit"
        await agent.spawn(model="large", complexity="simple")
        await agent.spawn(model="unheard-of", complexity="complex")
        await agent.collect(2)

    team = await as_master(script, settings=SETTINGS)
    assert [team[name].descriptor.model for name in ("w1", "w2")] == ["large", "unheard-of"]


@pytest.mark.requirement("C6", "E51")
@pytest.mark.parametrize("named", ["elsewhere", "elsewhere/good", "alias"])
async def test_a_model_of_a_plugin_in_quarantine_is_refused_with_what_is_wrong(as_master, named):
    async def script(agent, team):
        for tool, child in (
            ("spawn_child", {"prompt": "x", "model": named}),
            ("spawn_children_parallel", {"children": [{"prompt": "x", "model": named}]}),
        ):
            outcome = await agent.host.call_tool(tool, child)
            error = outcome.data["error"]
            assert (outcome.is_error, error["code"]) == (True, "model_not_available")
            assert "plugin far (prsm-far 1.0) is broken: RuntimeError: boom" in error["message"]
            assert "prsm doctor" in error["hint"]

    models = {"alias": {"provider": "elsewhere", "model_id": "good"}}
    config = {"absent": Absent(owners={"elsewhere": BROKEN}, lost=(BROKEN,))}
    team = await as_master(script, settings={**SETTINGS, "models": models}, config=config)
    assert [one.descriptor.name for one in team.manager.roster.records()] == ["master"]


async def test_a_child_that_fits_by_its_model_is_used_again(as_master):
    async def script(agent, team):
        await agent.spawn(complexity="simple")
        await agent.collect()
        await agent.spawn(complexity="complex")
        await agent.collect()
        answer = await agent.call("spawn_child", prompt="more", complexity="simple")
        assert (answer["name"], answer["reused"]) == ("w1", True)
        await agent.collect()

    await as_master(script, settings=SETTINGS)


@pytest.mark.requirement("E63")
async def test_only_models_that_agents_may_use_are_named_or_chosen(as_master):
    async def script(agent, team):
        assert await agent.refused("spawn_child", prompt="x", model="large") == "model_not_allowed"
        await agent.spawn(name="a", model="little")
        await agent.spawn(name="b", complexity="complex")  # none of the allowed ones fits
        await agent.spawn(name="c", complexity="simple")
        await agent.collect(3)

    settings = {**SETTINGS, "defaults": {"peer_models": ["little"]}}
    team = await as_master(script, settings=settings)
    master = team["master"].descriptor.model
    models = [team[name].descriptor.model for name in ("a", "b", "c")]
    assert models == ["small", master, "small"]
