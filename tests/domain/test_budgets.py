"""Limits of agents, below those of their parents."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from prsm_core.domain.budgets import NO_LIMITS, Budget

LIMITS = st.none() | st.integers(0, 5)
BUDGETS = st.builds(Budget, tokens=LIMITS, usd=LIMITS, turns=LIMITS, spawns=LIMITS)


@given(own=BUDGETS, before=BUDGETS, now=BUDGETS)
def test_limits_stay_below_a_ceiling_that_changed_and_what_came_from_it_follows(own, before, now):
    own = own.within(before)
    moved = own.moved(before, now)
    assert moved.fits(now)
    for name, limit in own.to_dict().items():
        ceiling = getattr(now, name)
        if limit == getattr(before, name):
            assert getattr(moved, name) == ceiling
        else:
            assert getattr(moved, name) == min(limit, limit if ceiling is None else ceiling)
    assert own.moved(before, before) == own


@given(own=BUDGETS)
def test_a_limit_of_its_own_holds_where_there_was_no_ceiling(own):
    assert own.moved(NO_LIMITS, NO_LIMITS) == own
