"""The built-in scorer: affinity for the task's category, then cost and speed."""

from __future__ import annotations

import pytest
from prsm_testing import ModelScorerContract

from prsm_core.builtin.fit_scorer import score
from prsm_core.builtin.plugin import prsm_model_scorers
from prsm_core.catalog.categories import CATEGORIES
from prsm_core.domain.models import ModelCapability, ModelTier, TaskProfile


class TestFitScorer(ModelScorerContract):
    spec = next(iter(prsm_model_scorers()))


def scored(category="coding", **known):
    model = ModelCapability(model_id="m", provider="p", tier=ModelTier.FAST, **known)
    return score(model, TaskProfile(description="", category=category))


@pytest.mark.requirement("E88")
@pytest.mark.parametrize("category", CATEGORIES)
def test_a_model_is_the_better_the_higher_its_affinity_for_the_category(category):
    low, high = (scored(category, affinities={category: value}) for value in (0.2, 0.9))
    assert low < scored(category) < high
    other = next(name for name in CATEGORIES if name not in {category, "general"})
    assert scored(category, affinities={other: 1.0}) == scored(category)


def test_where_nothing_is_known_of_a_category_the_general_affinity_counts():
    assert scored(affinities={"general": 0.9}) == scored(affinities={"coding": 0.9})


def test_the_cheaper_and_the_faster_is_better():
    assert scored(cost_factor=0.5) > scored() > scored(cost_factor=2.0)
    assert scored(speed_factor=2.0) > scored() > scored(speed_factor=0.5)


def test_of_a_typical_model_it_says_a_half():
    assert scored() == pytest.approx(0.5)
