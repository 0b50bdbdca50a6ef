"""Token counts add up, and what is not known stays unknown."""

from __future__ import annotations

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prsm_core import TokenUsage

NAMES = [field.name for field in fields(TokenUsage)]
COUNTS = st.none() | st.integers(0, 10**9)
USAGES = st.builds(TokenUsage, **dict.fromkeys(NAMES, COUNTS))


@given(USAGES, USAGES)
def test_addition_does_not_depend_on_the_order(a, b):
    assert a + b == b + a


@given(USAGES, USAGES, USAGES)
def test_addition_does_not_depend_on_the_grouping(a, b, c):
    assert (a + b) + c == a + (b + c)


@given(USAGES)
def test_adding_what_is_wholly_unknown_changes_nothing(usage):
    assert usage + TokenUsage() == usage


@given(USAGES, USAGES)
def test_a_sum_is_unknown_only_where_both_counts_are(a, b):
    total = a + b
    for name in NAMES:
        known = [n for n in (getattr(a, name), getattr(b, name)) if n is not None]
        assert getattr(total, name) == (sum(known) if known else None)


@given(USAGES)
def test_the_dict_of_a_usage_builds_it_again(usage):
    assert TokenUsage(**usage.to_dict()) == usage


@pytest.mark.requirement("N10")
def test_a_usage_has_the_six_counts_and_knows_none_at_first():
    assert TokenUsage().to_dict() == {
        "input_tokens": None,
        "output_tokens": None,
        "cached_input_tokens": None,
        "cache_write_tokens": None,
        "reasoning_tokens": None,
        "total_tokens": None,
    }
