"""Tells the alerts of the budget ledger as events."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prsm_core.engine.journal.unit import Journal
    from prsm_core.engine.spending.budgets import BudgetAlert


def tell_alert(journal: Journal, alert: BudgetAlert) -> None:
    """Write an alert to the journal; the event's agent is the subtree's, if any."""
    if alert.what == "unmetered":
        journal.note("notice", alert.scope, level="warning", text=_untold(alert))
        return
    journal.note(
        f"budget_{alert.what}",
        alert.scope,
        kind=alert.kind.value,
        used=alert.used,
        limit=alert.limit,
        reserved=alert.reserved,
        scope="run" if alert.scope is None else "subtree",
        provenance=alert.provenance.value,
    )


def _untold(alert: BudgetAlert) -> str:
    return (
        f"a turn told nothing of its {alert.kind.value}: the budget of {alert.limit} "
        f"{alert.kind.value} holds only as far as that is known"
    )
