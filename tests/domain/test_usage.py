"""Token counts and costs add up, no part is dropped, and what is not known is carried."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prsm_core import Provenance, Spent, TokenUsage
from prsm_core.domain.usage import total

NAMES = TokenUsage.__struct_fields__
COUNTS = st.none() | st.integers(0, 10**9)
USAGES = st.builds(TokenUsage, **dict.fromkeys(NAMES, COUNTS))
COSTS = st.none() | st.floats(0, 1000)
SOURCES = st.sampled_from([Provenance.MEASURED, Provenance.REPORTED, Provenance.ESTIMATED])
TURNS = st.builds(Spent.of_turn, USAGES, COSTS, SOURCES, SOURCES)


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
    both = a + b
    for name in set(NAMES) - {"total_tokens"}:
        known = [n for n in (getattr(a, name), getattr(b, name)) if n is not None]
        assert getattr(both, name) == (sum(known) if known else None)


@given(USAGES, USAGES)
def test_the_total_of_a_sum_drops_no_part(a, b):
    known = [n for n in (a.known_total, b.known_total) if n is not None]
    assert (a + b).known_total == (sum(known) if known else None)


@given(USAGES, USAGES)
def test_what_was_added_can_be_taken_off_again(a, b):
    left = ((a + b) - b).known_total
    assert left == (a.known_total or 0) if a.known_total is not None else not left


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


@pytest.mark.requirement("N10", "U16")
@given(st.lists(TURNS, max_size=12), st.randoms(use_true_random=False))
def test_a_total_is_the_same_in_whatever_order_and_groups_it_is_made(turns, random):
    shuffled = random.sample(turns, len(turns))
    cut = random.randint(0, len(turns))
    assert total(turns) == total(shuffled) == total([total(shuffled[:cut]), total(shuffled[cut:])])


@pytest.mark.requirement("N10", "U16")
@given(st.lists(TURNS, max_size=12))
def test_a_total_drops_nothing_that_is_known_and_carries_what_is_not(turns):
    spent = total(turns)
    tokens = [turn.usage.known_total for turn in turns if turn.usage.known_total is not None]
    costs = [turn.cost_usd for turn in turns if turn.cost_usd is not None]
    assert spent.usage.known_total == (sum(tokens) if tokens else None)
    assert spent.cost_usd == (pytest.approx(sum(costs)) if costs else None)
    assert spent.turns_without_tokens == sum(not turn.usage.is_whole for turn in turns)
    assert spent.turns_without_cost == len(turns) - len(costs)
    assert ("unknown" in spent.tokens_text) == (not tokens or spent.turns_without_tokens > 0)
    assert ("unknown" in spent.cost_text) == (not costs or spent.turns_without_cost > 0)


@pytest.mark.requirement("N10", "U16")
@given(st.lists(TURNS, max_size=12))
def test_the_kinds_of_a_sum_leave_no_token_out_and_whatever_is_shown_adds_up(turns):
    """Also where some vendors tell a total and nothing of what it is made of."""
    spent = total(turns)
    usage = spent.usage
    parts = [usage.input_tokens or 0, usage.output_tokens or 0, usage.of_unknown_kind or 0]
    if usage.known_total is None:
        assert usage.of_unknown_kind is None
    else:
        assert sum(parts) == usage.known_total
        of_turns = [turn.usage.of_unknown_kind for turn in turns]
        assert usage.of_unknown_kind == sum(n for n in of_turns if n is not None)
    assert spent.counts["of_unknown_kind"] == usage.of_unknown_kind
    shown = re.search(r"([\d,]+) \((.+?)\)", spent.text.split(", cost")[0])
    if shown is not None and "turn" not in shown[2]:
        numbers = [int(n.replace(",", "")) for n in re.findall(r"[\d,]*\d", shown[2])]
        assert sum(numbers) == int(shown[1].replace(",", ""))


@given(st.lists(TURNS, max_size=3))
def test_what_was_spent_comes_back_from_its_json(turns):
    spent = total(turns)
    assert Spent.from_dict(spent.to_dict()).to_dict() == spent.to_dict()
    assert Spent.from_dict(spent.to_dict()).text == spent.text


def told(cost=None, **counts):
    return Spent.of_turn(TokenUsage(**counts), cost)


@pytest.mark.requirement("N10", "U16")
@pytest.mark.parametrize(
    ("turns", "text"),
    [
        ([], "tokens: unknown, cost: unknown"),
        ([told()], "tokens: unknown (1 turn), cost: unknown (1 turn)"),
        ([told(total_tokens=1234)], "tokens: 1,234, cost: unknown (1 turn)"),
        (
            [told(0.3184, input_tokens=1000, output_tokens=240)],
            "tokens: 1,240 (1,000 in, 240 out), cost: $0.32",
        ),
        (
            [told(0.32, input_tokens=5, output_tokens=0), told(), told()],
            "tokens: 5 (5 in, 0 out) + unknown (2 turns), cost: $0.32 + unknown (2 turns)",
        ),
        # Input and output of one vendor are not those of both.
        (
            [told(0.5, input_tokens=5, output_tokens=2), told(1, total_tokens=1000)],
            "tokens: 1,007 (5 in, 2 out, 1,000 of unknown kind), cost: $1.50",
        ),
        (
            [told(1.0, input_tokens=5, output_tokens=2), told(1, input_tokens=3, total_tokens=9)],
            "tokens: 16 (8 in, 2 out, 6 of unknown kind), cost: $2.00",
        ),
        (
            [told(0.5, input_tokens=5, output_tokens=2), told(total_tokens=3), told()],
            "tokens: 10 (5 in, 2 out, 3 of unknown kind) + unknown (1 turn), cost: $0.50"
            " + unknown (2 turns)",
        ),
        # A total that is less than its parts: they are not told.
        ([told(1.0, input_tokens=50, output_tokens=2, total_tokens=4)], "tokens: 4, cost: $1.00"),
        ([told(0.0, output_tokens=7)], "tokens: 7 + unknown (1 turn), cost: $0.00"),
        ([told(0.0012, total_tokens=0)], "tokens: 0, cost: $0.0012"),
        ([told(0.00001, total_tokens=0)], "tokens: 0, cost: < $0.0001"),
        ([told(1234.5, total_tokens=0)], "tokens: 0, cost: $1,234.50"),
    ],
)
def test_what_was_spent_is_told_with_what_is_unknown_of_it(turns, text):
    assert total(turns).text == text
