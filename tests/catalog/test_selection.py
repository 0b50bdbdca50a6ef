"""Which model fits a complexity: the tier first, then what is preferred, cheap and fast."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prsm_core.catalog.selection import FITTING, check_fit, choose_model
from prsm_core.domain.models import ModelCapability, ModelTier
from prsm_core.errors import ModelNotAvailableError

MODELS = st.builds(
    ModelCapability,
    model_id=st.sampled_from(["a", "b", "c"]),
    provider=st.sampled_from(["p", "q"]),
    tier=st.sampled_from(ModelTier),
    cost_factor=st.sampled_from([0.5, 1.0, 2.0]),
    speed_factor=st.sampled_from([1.0, 2.0]),
)
COMPLEXITIES = st.sampled_from(sorted(FITTING))


def model(name, tier, cost=1.0, speed=1.0):
    return ModelCapability(
        model_id=name, provider="p", tier=ModelTier(tier), cost_factor=cost, speed_factor=speed
    )


CHEAP, QUICK, GOOD, BEST = (model(tier, tier) for tier in ("economy", "fast", "strong", "frontier"))


@pytest.mark.parametrize(
    ("complexity", "chosen"), [("simple", CHEAP), ("moderate", GOOD), ("complex", BEST)]
)
def test_each_complexity_has_its_tier(complexity, chosen):
    models = [GOOD, BEST, QUICK, CHEAP]
    assert choose_model(models, complexity, is_allowed=lambda _: True) == chosen


def test_within_a_tier_the_preferred_then_the_cheaper_then_the_faster_is_taken():
    dear, cheap, fast = model("a", "strong", 2.0), model("b", "strong"), model("c", "strong", 1, 2)
    models = [dear, cheap, fast]
    assert choose_model(models, "moderate", is_allowed=lambda _: True) == fast
    assert choose_model(models, "moderate", is_allowed=lambda _: True, preferred=dear) == dear
    assert choose_model(models, "moderate", is_allowed=lambda m: m != fast) == cheap


@given(models=st.lists(MODELS), complexity=COMPLEXITIES, allowed=st.sets(st.sampled_from("abc")))
def test_what_is_chosen_is_allowed_and_fits_and_no_better_tier_was_to_be_had(
    models, complexity, allowed
):
    chosen = choose_model(models, complexity, is_allowed=lambda m: m.model_id in allowed)
    usable = [m for m in models if m.model_id in allowed and m.tier in FITTING[complexity]]
    assert (chosen is None) == (not usable)
    if chosen is not None:
        check_fit(chosen, complexity)
        rank = FITTING[complexity].index
        assert chosen in usable
        assert all(rank(chosen.tier) <= rank(other.tier) for other in usable)


@given(capability=MODELS, complexity=COMPLEXITIES)
def test_a_model_is_refused_just_when_its_tier_is_too_weak(capability, complexity):
    if capability.tier in FITTING[complexity]:
        check_fit(capability, complexity)
    else:
        with pytest.raises(ModelNotAvailableError, match="too weak") as caught:
            check_fit(capability, complexity)
        assert caught.value.code == "model_unfit"


def test_of_a_model_that_nobody_knows_nothing_is_said():
    check_fit(None, "complex")
