"""Budget ledgers as tests open, use and read them."""

from __future__ import annotations

from prsm_core.domain.budgets import Budget
from prsm_core.domain.usage import Provenance, Spent, TokenUsage
from prsm_core.engine.spending import BudgetLedger


def used(tokens=None, cost=None, source=Provenance.MEASURED):
    """Return what a turn used; None is unknown."""
    return Spent.of_turn(TokenUsage(total_tokens=tokens), cost, source, source)


def open_ledger(**limits):
    """Return a ledger with a master in it, and the alerts it gives."""
    alerts: list[object] = []
    ledger = BudgetLedger(Budget(**limits), alerts.append)
    ledger.launch("m")
    return ledger, alerts


def run_turn(ledger, agent, spent, turn=None):
    ledger.open_turn(agent, turn or agent)
    ledger.close_turn(turn or agent, spent)


def numbers(ledger, agent="m", scope="subtree", kind="tokens"):
    line = ledger.report(agent)[scope][kind]
    return line["used"], line["reserved"], line.get("left")
