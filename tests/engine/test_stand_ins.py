"""A model whose provider is not there: one of the same tier stands in for it, and that is told."""

from __future__ import annotations

import pytest

from prsm_core.catalog.selection import build_model_registry
from prsm_core.config import Settings
from prsm_core.engine.providers.model_choice import stand_ins
from prsm_core.engine.providers.model_names import ModelNames
from prsm_core.errors import ProviderNotAvailableError, PrsmError
from prsm_core.interfaces.provider import ProviderStatus
from tests.engine.test_team import Vendor, specs

pytestmark = pytest.mark.requirement("E4")

AWAY = ProviderStatus(available=False, reason="it is not installed here")
LOGGED_OUT = ProviderStatus(available=True, logged_in=False)
REGISTRY = {
    "big": {"provider": "gone", "tier": "frontier"},
    "large": {"provider": "script", "tier": "frontier", "cost_factor": 2},
    "grand": {"provider": "near", "tier": "frontier", "cost_factor": 1},
    "small": {"provider": "near", "tier": "economy"},
    "lone": {"provider": "gone", "tier": "fast"},
}
ALIASES = {
    "best": {"provider": "gone", "model_id": "big"},
    "odd": {"provider": "gone", "model_id": "unheard-of"},
}
SETTINGS = {"model_registry": REGISTRY, "models": ALIASES}
INSTEAD = "provider gone of model {!r} cannot be used: {}, of the same tier (frontier), stands in"


def warnings(team, agent=None):
    told = team.ledger.events("notice", **({} if agent is None else {"agent": agent}))
    return [one["text"] for one in told if one["level"] == "warning"]


def place(team, name):
    agent = team[name].descriptor
    return f"{agent.provider}/{agent.model}"


@pytest.mark.parametrize("name", ["big", "best"])
@pytest.mark.parametrize("status", [None, AWAY, LOGGED_OUT], ids=["none", "away", "logged out"])
async def test_a_master_whose_provider_is_not_there_runs_on_a_model_of_the_same_tier(
    opened, name, status
):
    vendors = [Vendor("near"), *([] if status is None else [Vendor("gone", status=status)])]
    async with opened(settings=SETTINGS, **specs(*vendors)) as team:
        result = await team.run(options={"master_model": name})
        assert result.status == "completed"
        assert place(team, "master") == "near/grand"  # the cheaper of two
        [told] = [text for text in warnings(team) if "stands in" in text]
        assert told.startswith(INSTEAD.format(name, "near/grand"))


async def test_a_stand_in_that_is_not_there_either_is_passed_over(opened):
    near = Vendor("near", status=AWAY)
    async with opened(settings=SETTINGS, **specs(near)) as team:
        await team.run(options={"master_model": "best"})
        assert place(team, "master") == "script/large"


@pytest.mark.parametrize(
    ("model", "provider"), [("gone/big", None), ("big", "gone"), ("best", "gone")]
)
async def test_who_names_the_provider_gets_no_other(opened, model, provider):
    gone = Vendor("gone", status=AWAY)
    async with opened(settings=SETTINGS, **specs(gone, Vendor("near"))) as team:
        with pytest.raises(ProviderNotAvailableError, match="it is not installed here"):
            await team.run(options={"master_model": model, "provider": provider})
        assert team.ledger.events() == []


@pytest.mark.parametrize("model", ["lone", "odd"])
async def test_where_no_model_of_the_tier_is_there_the_error_is_that_of_the_named_one(
    opened, model
):
    """Of the one nobody else has the tier, of the other none is known."""
    async with opened(settings=SETTINGS, **specs(Vendor("near"))) as team:
        with pytest.raises(PrsmError, match="gone"):
            await team.run(options={"master_model": model})
        assert team.ledger.events() == []


async def test_the_registry_says_which_provider_has_a_model(opened):
    near = Vendor("near")
    async with opened(settings=SETTINGS, **specs(near)) as team:

        async def master(agent):
            await agent.spawn(name="a", model="large")
            await agent.collect()
            await agent.complete()

        near.behaviours["master"] = master
        await team.run(options={"master_model": "small"})
        assert [place(team, name) for name in ("master", "a")] == ["near/small", "script/large"]
        assert not any("stands in" in text for text in warnings(team))


async def test_a_model_that_is_there_is_taken_and_nothing_is_told(opened):
    vendors = specs(Vendor("gone"), Vendor("near"))
    async with opened(settings=SETTINGS, **vendors) as team:
        await team.run(options={"master_model": "best"})
        assert place(team, "master") == "gone/big"
        assert not any("stands in" in text for text in warnings(team))


@pytest.mark.parametrize("name", ["big", "best"])
@pytest.mark.parametrize("status", [None, AWAY, LOGGED_OUT], ids=["none", "away", "logged out"])
async def test_a_child_gets_a_model_of_the_same_tier_and_its_parent_is_told(opened, name, status):
    vendors = [Vendor("near"), *([] if status is None else [Vendor("gone", status=status)])]
    async with opened(settings=SETTINGS, **specs(*vendors)) as team:
        answers = {}

        async def master(agent):
            answers["a"] = await agent.call("spawn_child", prompt="x", name="a", model=name)
            both = [{"prompt": "x", "name": "b", "model": name}, {"prompt": "y", "name": "c"}]
            made = await agent.call("spawn_children_parallel", children=both)
            answers["b"], answers["c"] = made["children"]
            await agent.collect(3)
            await agent.complete()

        await team.run(options={"provider": "script"}, master=master)
        assert {place(team, child) for child in "ab"} == {"near/grand"}
        told = INSTEAD.format(name, "near/grand")
        assert answers["a"]["note"].startswith(told)
        assert answers["b"]["note"].startswith(told)
        assert "note" not in answers["c"]
        for child in "ab":
            [line] = [text for text in warnings(team, child) if "stands in" in text]
            assert line.startswith(told)
        assert not any("stands in" in text for text in warnings(team, "c"))


@pytest.mark.parametrize("status", [AWAY, LOGGED_OUT], ids=["away", "logged out"])
async def test_what_stands_in_for_the_model_of_a_child_is_there_itself(opened, status):
    vendors = (Vendor("near", status=status), Vendor("gone", status=AWAY))
    async with opened(settings=SETTINGS, **specs(*vendors)) as team:
        answers = []

        async def master(agent):
            answers.append(await agent.call("spawn_child", prompt="x", name="a", model="best"))
            await agent.collect()
            await agent.complete()

        await team.run(options={"provider": "script"}, master=master)
        assert place(team, "a") == "script/large", "near/grand is cheaper, and away as well"
        [answer] = answers
        assert answer["note"].startswith(INSTEAD.format("best", "script/large"))


async def test_a_child_that_is_named_exactly_gets_no_other(opened):
    gone = Vendor("gone", status=AWAY)
    async with opened(settings=SETTINGS, **specs(gone, Vendor("near"))) as team:

        async def master(agent):
            answer = await agent.call("spawn_child", prompt="x", name="a", model="gone/big")
            assert "note" not in answer
            await agent.collect()
            await agent.complete()

        await team.run(options={"provider": "script"}, master=master)
        assert place(team, "a") == "gone/big"


async def test_a_stand_in_is_within_what_agents_may_use_and_fits_the_task(opened):
    settings = {**SETTINGS, "defaults": {"peer_models": ["large", "best"]}}
    async with opened(settings=settings, **specs(Vendor("near"))) as team:

        async def master(agent):
            await agent.spawn(name="a", model="best", complexity="complex")
            weak = {"prompt": "x", "model": "lone", "complexity": "complex"}
            assert (await agent.outcome("spawn_child", weak)).is_error
            await agent.collect()
            await agent.complete()

        await team.run(options={"provider": "script"}, master=master)
        assert place(team, "a") == "script/large"


async def test_a_free_child_that_is_taken_for_a_stand_in_is_told_as_one(opened):
    settings = {**SETTINGS, "defaults": {"peer_models": ["large", "best"]}}
    async with opened(settings=settings) as team:

        async def master(agent):
            await agent.spawn(model="large")
            await agent.collect()
            answer = await agent.call("spawn_child", prompt="more", model="best")
            assert (answer["name"], answer["reused"]) == ("w1", True)
            assert answer["note"].startswith(INSTEAD.format("best", "script/large"))
            await agent.collect()
            plain = await agent.call("spawn_child", prompt="more", model="large")
            assert (plain["reused"], "note" in plain) == (True, False)
            await agent.collect()
            await agent.complete()

        await team.run(options={"provider": "script"}, master=master)


def names_of(registry, *providers):
    settings = Settings.of({"model_registry": registry, "models": ALIASES})
    return ModelNames(settings=settings, providers=frozenset(providers))


def test_a_name_of_the_provider_at_hand_is_its_own_whatever_the_registry_says():
    names = names_of(REGISTRY, "near")
    assert names.meant("big", None) == names.meant("big", "near") == ("gone", "big")
    own = Settings.of({"model_registry": REGISTRY, "providers": {"near": {"models": ["big"]}}})
    there = ModelNames(settings=own, providers=frozenset({"near"}))
    assert there.meant("big", "near") is None
    assert there.place("big", "near") == ("near", "big")
    for other in ("near", "gone/big", "unheard-of"):
        assert names.meant(other, None) is None


def test_stand_ins_are_of_one_tier_the_cheaper_first_then_the_faster_then_by_name():
    registry = {
        "w": {"provider": "gone", "tier": "strong"},
        "own": {"provider": "gone", "tier": "strong"},
        "weak": {"provider": "p", "tier": "fast"},
        "dear": {"provider": "p", "tier": "strong", "cost_factor": 3},
        "slow": {"provider": "p", "tier": "strong", "speed_factor": 0.5},
        "b": {"provider": "p", "tier": "strong"},
        "a": {"provider": "p", "tier": "strong"},
        "barred": {"provider": "q", "tier": "strong"},
    }
    models = build_model_registry(Settings.of({"model_registry": registry}))
    found = stand_ins(("gone", "w"), models, lambda model: model.provider != "q")
    assert [model.model_id for model in found] == ["a", "b", "slow", "dear"]
    assert stand_ins(("gone", "unknown"), models, lambda _: True) == []
