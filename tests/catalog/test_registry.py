"""The registry from the configuration: what is known, and whose it is."""

from __future__ import annotations

import pytest

from prsm_core.catalog.selection import build_model_registry
from prsm_core.config import Settings
from prsm_core.domain.models import ModelTier


def registry(**sections):
    return build_model_registry(Settings.of(sections))


def test_a_model_belongs_to_the_provider_it_names_or_that_of_its_alias_or_the_default_one():
    known = {"tier": "strong"}
    models = registry(
        defaults={"provider": "home"},
        models={"quick": {"provider": "aliased", "model_id": "m2"}},
        model_registry={"m1": {"provider": "own", **known}, "m2": known, "m3": known},
    )
    assert [(m.provider, m.model_id) for m in models] == [
        ("own", "m1"),
        ("aliased", "m2"),
        ("home", "m3"),
    ]
    assert models.get("own", "m1").tier is ModelTier.STRONG
    assert models.get("home", "m1") is None


def test_without_a_tier_or_a_provider_a_model_is_not_in_it():
    assert list(registry(model_registry={"m1": {"tier": "fast"}})) == []
    assert list(registry(model_registry={"m1": {"provider": "p", "cost_factor": 2}})) == []


@pytest.mark.requirement("E87")
@pytest.mark.parametrize("tier", ["frontier", "strong", "fast", "economy"])
def test_all_that_is_set_of_a_model_is_there(tier):
    [model] = registry(
        model_registry={
            "m": {
                "provider": "p",
                "tier": tier,
                "cost_factor": 0.5,
                "speed_factor": 3,
                "max_context": 1000,
                "affinities": {"coding": 0.9},
            }
        }
    )
    assert model.tier is ModelTier(tier)
    assert (model.cost_factor, model.speed_factor, model.max_context) == (0.5, 3, 1000)
    assert model.affinities == {"coding": 0.9}
