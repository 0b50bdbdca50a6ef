"""What a run costs: an estimate from the subtasks that were, and what each has used."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace
from prsm_regions.plan import Plan, Subtask
from prsm_regions.planning import PRIOR_TOKENS, tokens_each
from prsm_regions.report import costs_text

from plugins.prsm_regions.tests.conftest import done, lane, of_type, planner
from prsm_core import AgentRole, AgentState, ChildNow, Spent, TokenUsage


def used(tokens: int | None) -> Spent:
    return Spent(usage=TokenUsage(total_tokens=tokens))


@pytest.mark.requirement("R26")
def test_the_estimate_is_the_mean_of_subtasks_that_were_else_a_prior():
    assert tokens_each([]) == PRIOR_TOKENS
    assert tokens_each([used(None), used(0)]) == PRIOR_TOKENS
    assert tokens_each([used(100), used(301), used(None)]) == 200


PLAN = Plan((Subtask(index=0, name="ui", description="the page", region="ui"),))


def child(agent: str, role: str, spent: Spent) -> ChildNow:
    return ChildNow(
        agent_id=agent, name=agent, role=AgentRole.WORKER, state=AgentState.COMPLETED,
        incarnation=1, provider="codex", model="m", cwd="/", region=None,
        labels={"regions/role": role}, spent=spent,
    )  # fmt: skip


@pytest.mark.requirement("R26")
@pytest.mark.parametrize(
    ("spent", "said"),
    [
        (used(None), "unknown tokens"),
        (used(1234), "1234 tokens"),
        (Spent(usage=TokenUsage(input_tokens=5, output_tokens=2)), "7 tokens"),
        (replace(used(10), turns_without_tokens=1), "10 tokens or more"),
        (replace(used(10), cost_usd=0.25), "10 tokens, $0.2500"),
    ],
)
def test_what_a_subtask_has_used_is_told_as_far_as_it_is_known(spent, said):
    told = costs_text(PLAN, {0: "a"}, [child("a", "subtask", spent)])
    assert told == f"Costs:\n  Subtask 1: {said}"


@pytest.mark.requirement("R26", "R29")
def test_the_planner_questions_and_judges_are_costs_of_the_run_too():
    children = [
        child("p", "planner", used(100)),
        child("a", "subtask", used(10)),
        child("o", "owner", used(42)),
        child("j", "judge", used(3)),
    ]
    assert costs_text(PLAN, {0: "a"}, children).splitlines()[1:] == [
        "  Subtask 1: 10 tokens",
        "  planner p: 100 tokens",
        "  question o: 42 tokens",
        "  judge j: 3 tokens",
    ]
    assert costs_text(PLAN, {}, []) == "Costs:", "a subtask that never began has none"


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
