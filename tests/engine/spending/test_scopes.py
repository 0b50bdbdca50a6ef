"""What a subtree has used: told wherever a limit stands, and at the same cost at every depth."""

from __future__ import annotations

import sys

import pytest

from prsm_core.domain.budgets import Budget
from prsm_core.engine.spending import BudgetLedger
from tests.engine.spending.ledgers import open_ledger, run_turn, used


def lines_run(acts):
    """Return how many lines of the modules of budgets the acts take."""
    lines = 0

    def count(frame, event, _):
        nonlocal lines
        if not frame.f_globals.get("__name__", "").startswith("prsm_core.engine.spending"):
            return None  # such as what collects garbage meanwhile
        lines += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        acts()
    finally:
        sys.settrace(before)
    return lines


@pytest.mark.parametrize("where", ["nowhere", "of the run", "of an agent"])
def test_a_turn_costs_the_same_however_deep_its_agent_stands(where):
    limits = Budget(tokens=10**9, turns=10**6)

    def a_turn_at_depth(depth):
        ledger = BudgetLedger(limits if where == "of the run" else Budget())
        names = [f"w{number}" for number in range(depth + 1)]
        for parent, name in zip([None, *names], names, strict=False):
            own = limits if where == "of an agent" and name == "w1" else Budget()
            ledger.launch(name, parent_id=parent, limits=own)
            run_turn(ledger, name, used(10, 0.5))

        def acts():
            ledger.launch("last", parent_id=names[-1])
            ledger.open_turn("last", "t")
            ledger.meter("t", used(5, 0.5))
            ledger.close_turn("t", used(10, 0.5))

        lines = lines_run(acts)
        report = ledger.report(names[2])["subtree"]
        assert report["tokens"]["used"] == 10 * depth
        assert report["turns"]["used"] == depth
        assert report["spawns"]["used"] == depth - 1
        return lines

    assert a_turn_at_depth(3) == a_turn_at_depth(60)


def test_what_a_subtree_has_used_is_told_wherever_a_limit_stands():
    ledger, _ = open_ledger()
    ledger.launch("a", parent_id="m")
    ledger.launch("b", parent_id="a", limits=Budget(tokens=1000))
    ledger.launch("c", parent_id="b")
    for agent, tokens in (("m", 1), ("a", 20), ("b", 300), ("c", 400)):
        run_turn(ledger, agent, used(tokens, None if agent == "c" else 0.25))
    told = {agent: ledger.report(agent) for agent in "mabc"}
    sums = {agent: report["subtree"]["tokens"]["used"] for agent, report in told.items()}
    assert sums == {"m": 721, "a": 720, "b": 700, "c": 400}
    dollars = [told[agent]["subtree"]["usd"] for agent in "abc"]
    assert [(line["used"], line["unknown_turns"]) for line in dollars] == [
        (0.5, 1),
        (0.25, 1),
        (None, 1),
    ]
    assert told["a"]["spent"]["subtree"] == "tokens: 720, cost: $0.50 + unknown (1 turn)"
    assert told["c"]["spent"]["run"] == "tokens: 721, cost: $0.75 + unknown (1 turn)"
    assert told["c"]["subtree"]["tokens"]["left"] == 300
