"""The ranking of models: the tier first, then the weighted mean of the scorers."""

from __future__ import annotations

import sys
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prsm_core.catalog.ranking import rank_models
from prsm_core.catalog.selection import FITTING
from prsm_core.domain.models import ModelCapability, ModelTier, TaskProfile
from prsm_core.interfaces.scorer import ModelScorerSpec

TASK = TaskProfile(description="Implement it.", category="coding")
SCORES = st.none() | st.floats(0, 1)


def model(name, tier="strong", cost=1.0, speed=1.0, **affinities):
    return ModelCapability(
        model_id=name,
        provider="p",
        tier=ModelTier(tier),
        cost_factor=cost,
        speed_factor=speed,
        affinities=affinities,
    )


def scorer(name="s", weight=1.0, score=None, **scores):
    """A scorer with an opinion on the models that are named, or a score function."""
    return ModelScorerSpec(
        name=name,
        summary="",
        weight=weight,
        score=score or (lambda model, task: scores.get(model.model_id)),
    )


def ranked(models, *scorers, complexity=None):
    """Return the ids and scores, best first; nothing may be wrong."""
    task = TaskProfile(description="", category="coding", complexity=complexity)
    ranking = rank_models(models, task, scorers)
    assert ranking.problems == ()
    return [(entry.model.model_id, entry.score) for entry in ranking.models]


def test_the_score_is_the_weighted_mean_of_the_opinions():
    first, second = scorer("x", 3.0, a=1.0, b=0.5), scorer("y", 1.0, a=0.0, b=1.0)
    models = [model("b"), model("a")]
    assert ranked(models, first, second) == [("a", 0.75), ("b", 0.625)]


def test_a_scorer_without_an_opinion_does_not_count_for_that_model():
    models = [model("a"), model("b"), model("c")]
    first, second = scorer("x", 9.0, a=0.2), scorer("y", 1.0, a=0.2, b=0.9)
    assert ranked(models, first, second) == [("b", 0.9), ("a", 0.2), ("c", None)]


def test_the_tier_comes_before_the_score_and_what_is_too_weak_is_left_out():
    tiers = ("economy", "fast", "strong", "frontier")
    models = [model(tier, tier) for tier in tiers]
    likes = scorer(economy=1.0, fast=0.9, strong=0.1, frontier=0.2)
    names = {
        complexity: [name for name, _ in ranked(models, likes, complexity=complexity)]
        for complexity in FITTING
    }
    assert names == {
        "simple": ["economy", "fast", "strong", "frontier"],
        "moderate": ["strong", "fast", "frontier"],
        "complex": ["frontier", "strong"],
    }
    assert [name for name, _ in ranked(models, likes)] == ["economy", "fast", "frontier", "strong"]


def test_without_scorers_the_cheaper_then_the_faster_then_the_name_decides():
    models = [model("d"), model("c"), model("b", speed=2.0), model("a", cost=2.0)]
    assert [name for name, _ in ranked(models)] == ["b", "c", "d", "a"]


def test_a_reason_says_tier_affinity_cost_and_speed():
    task = TaskProfile(description="", category="coding", complexity="complex")
    [entry] = rank_models([model("a", cost=0.5, speed=2, coding=0.9)], task, ()).models
    assert entry.reason == "strong fits a complex task; coding 0.9; cost 0.5, speed 2"
    [entry] = rank_models([model("a")], TASK, ()).models
    assert entry.reason == "strong; coding unknown; cost 1, speed 1"
    assert entry.to_dict() == {
        "model": "p/a",
        "tier": "strong",
        "score": None,
        "cost_factor": 1.0,
        "speed_factor": 1.0,
        "reason": entry.reason,
    }


def fails(model, task):
    if model.model_id == "b":
        raise KeyError("b")
    return 1.0


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (scorer("bad", score=fails), "KeyError: 'b'"),
        (scorer("bad", score="no.such:module"), "plugin bad: cannot import 'no.such:module': "),
        (scorer("bad", score=lambda *_: sys.exit(3)), "SystemExit: 3"),
        (scorer("bad", score=lambda *_: Decimal("0.5")), "it says a Decimal"),
        (scorer("bad", score=lambda *_: True), "it says a bool"),
        (scorer("bad", a=1.5), "it says 1.5, which is not 0 to 1"),
        (scorer("bad", a=float("nan")), "it says nan, which is not 0 to 1"),
        (scorer("bad", score=lambda model, task: "good"), "it says a str, which is not 0 to 1"),
        (scorer("bad", weight=0.0, a=1.0), "its weight is 0.0"),
        (scorer("bad", weight=float("inf"), a=1.0), "its weight is inf"),
    ],
)
def test_a_broken_scorer_is_left_out_for_all_models_and_told(broken, why):
    models = [model("a"), model("b")]
    ranking = rank_models(models, TASK, [broken, scorer("good", a=0.1, b=0.2)])
    assert [(entry.name, entry.score) for entry in ranking.models] == [("p/b", 0.2), ("p/a", 0.1)]
    [problem] = ranking.problems
    assert problem.startswith(f"model scorer bad is left out: {why}")


@given(
    opinions=st.lists(st.tuples(st.floats(0.001, 1000), st.lists(SCORES, min_size=4, max_size=4))),
    complexity=st.sampled_from([None, *FITTING]),
)
def test_each_fitting_model_is_there_once_and_no_score_is_beyond_the_opinions(opinions, complexity):
    models = [model(tier.value, tier.value) for tier in ModelTier]
    specs = [
        scorer(f"s{index}", weight, **dict(zip(ModelTier, scores, strict=True)))
        for index, (weight, scores) in enumerate(opinions)
    ]
    found = dict(ranked(models, *specs, complexity=complexity))
    tiers = FITTING[complexity] if complexity else tuple(ModelTier)
    assert sorted(found) == sorted(tier.value for tier in tiers)
    for index, tier in enumerate(ModelTier):
        said = [scores[index] for _, scores in opinions if scores[index] is not None]
        score = found.get(tier.value)
        if score is None:
            assert not said or tier.value not in found
        else:
            assert min(said) - 1e-9 <= score <= max(said) + 1e-9
