"""Tokens and cost: growth only, and nothing that cannot be."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prsm_claude.events import UsageMeter

from prsm_core.domain.usage import Provenance, TokenUsage


def respond(meter: UsageMeter, fresh: int, output: int, cached: int = 0) -> Any:
    usage = {"input_tokens": fresh, "cache_read_input_tokens": cached, "output_tokens": 1}
    meter.begin({"usage": usage})
    meter.progress({"output_tokens": output})
    return meter.response_ended()


def test_the_input_includes_what_a_cache_held():
    (report,) = respond(UsageMeter(), 30, 5, cached=20)
    assert report.usage == TokenUsage(
        input_tokens=50, output_tokens=5, cached_input_tokens=20, total_tokens=55
    )
    assert report.context_used == 55


def test_a_result_adds_only_what_no_response_told():
    meter = UsageMeter()
    respond(meter, 100, 10)
    (report,) = meter.turn_ended({"input_tokens": 130, "output_tokens": 12}, {}, None)
    assert (report.usage.input_tokens, report.usage.output_tokens) == (30, 2)
    respond(meter, 100, 10)
    assert meter.turn_ended({"input_tokens": 100, "output_tokens": 10}, {}, None) == []


def test_the_cost_is_the_growth_of_the_sum():
    meter = UsageMeter(Provenance.ESTIMATED)
    costs = [meter.turn_ended({}, {}, total)[0].cost_usd for total in (0.5, 0.75)]
    assert costs == [0.5, 0.25]
    assert meter.turn_ended({}, {}, 0.8)[0].cost_provenance is Provenance.ESTIMATED


def test_the_first_cost_after_a_resume_is_unknown_where_the_sum_before_it_is():
    meter = UsageMeter()
    meter.spent_usd = None
    assert meter.turn_ended({}, {}, 5.0) == []
    assert meter.turn_ended({}, {}, 5.5)[0].cost_usd == 0.5


def test_an_interrupted_response_tells_noughts_that_do_not_count():
    meter = UsageMeter()
    meter.begin({"usage": {"input_tokens": 100, "output_tokens": 1}})
    meter.progress({"input_tokens": 0, "output_tokens": 0})
    (report,) = meter.response_ended()
    assert report.usage.input_tokens == 100


def test_the_window_is_that_of_the_largest_model():
    meter = UsageMeter()
    models = {"small": {"contextWindow": 10}, "large": {"contextWindow": 20}, "odd": 5}
    (report,) = meter.turn_ended({}, models, 0.1)
    assert report.context_window == 20


@pytest.mark.parametrize("cost", [-1.0, float("nan"), float("inf"), 1e300, True, "5", None])
def test_a_cost_that_cannot_be_is_unknown(cost):
    meter = UsageMeter()
    assert meter.turn_ended({}, {}, cost) == []
    assert meter.turn_ended({}, {}, 0.5)[0].cost_usd == 0.5


JUNK = st.one_of(
    st.integers(), st.floats(), st.text(max_size=3), st.none(), st.booleans(), st.lists(st.none())
)
USAGE = st.one_of(JUNK, st.dictionaries(st.sampled_from(["input_tokens", "output_tokens"]), JUNK))


@given(st.lists(st.tuples(USAGE, USAGE, USAGE, JUNK)))
def test_whatever_is_told_no_report_is_negative_or_absurd(told):
    meter = UsageMeter()
    for start, progress, end, cost in told:
        meter.begin({"usage": start})
        meter.progress(progress)
        for report in (*meter.response_ended(), *meter.turn_ended(end, end, cost)):
            counts = [value for value in report.usage.to_dict().values() if value is not None]
            assert all(0 <= value <= 2**43 for value in counts)
            assert report.cost_usd is None or 0 <= report.cost_usd <= 1e6


COUNTS = st.tuples(st.integers(0, 10**6), st.integers(0, 10**6))


@given(st.lists(st.lists(COUNTS, min_size=1, max_size=4), max_size=5))
def test_the_reports_add_up_to_what_was_used(turns):
    meter, reports = UsageMeter(), []
    for turn in turns:
        for fresh, output in turn:
            reports += respond(meter, fresh, max(output, 1))
        whole = {
            "input_tokens": sum(fresh for fresh, _ in turn),
            "output_tokens": sum(max(output, 1) for _, output in turn),
        }
        reports += meter.turn_ended(whole, {}, None)
    total = sum((report.usage for report in reports), TokenUsage())
    wanted = sum(fresh + max(output, 1) for turn in turns for fresh, output in turn)
    assert (total.total_tokens or 0) == wanted
