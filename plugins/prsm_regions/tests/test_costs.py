"""What a run costs: an estimate from the subtasks that were, and what each has used."""

from __future__ import annotations

import json

import pytest
from prsm_regions.costs import PRIOR_TOKENS, tokens_each

from plugins.prsm_regions.tests.conftest import done, lane, of_type, planner
from prsm_core import Spent, TokenUsage


def used(tokens: int | None) -> Spent:
    return Spent(usage=TokenUsage(total_tokens=tokens))


@pytest.mark.requirement("R26")
def test_the_estimate_is_the_mean_of_subtasks_that_were_else_a_prior():
    assert tokens_each([]) == PRIOR_TOKENS
    assert tokens_each([used(None), used(0)]) == PRIOR_TOKENS
    assert tokens_each([used(100), used(301), used(None)]) == 200


ONE = [{"name": "ui", "description": "the page", "region": "ui"}]
TWO = [*ONE, {"name": "core", "description": "the parser", "region": "core"}]


@pytest.mark.requirement("R2", "R26")
def test_the_plan_of_a_later_session_is_estimated_from_the_subtasks_of_an_earlier_one(prsm):
    costs = {"input_tokens": 700, "output_tokens": 300}
    works = lane("ui", {**done("page made"), "usage": costs})
    prsm.play({"planner": planner(json.dumps(ONE)), "ui": works})
    told = prsm.regions("--on-ask", "allow")
    assert told.returncode == 0, told.stdout + told.stderr
    (asked,) = of_type(prsm.events(), "question_asked")
    assert asked["data"]["estimated_cost"] == PRIOR_TOKENS
    assert "Subtask 1: 1000 tokens" in told.stdout
    first = asked["session"]

    prsm.play({"planner": planner(json.dumps(TWO))})
    told = prsm.regions("--mode", "plan")
    assert told.returncode == 0, told.stdout + told.stderr
    assert {event["session"] for event in prsm.events()}.isdisjoint({first})
    assert "2000 tokens (estimated)" in told.stdout.replace(",", "")
