"""The rules: what must hold in every run, and what was found of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_VIOLATIONS = 5  # that are kept: what follows the first ones is their consequence

RULES = {
    "ends": "the run ends within its virtual time",
    "results": "each life of an agent ends once, with one result",
    "messages": "an accepted message is consumed at most once, in order, by whom it was sent to",
    "receives": "what a lost session received, and no model acted on, is unread again",
    "mailboxes": "a waiting agent's mailbox is its inbox in the ledger",
    "wakeups": "nobody sleeps on while what it waits for is there",
    "victims": "a knot that is acted on is the definition's",
    "knots": "no knot is left alone",
    "processes": "no more processes run than there may be",
    "slots": "no more agents work than there are slots, and who waits holds none",
    "limits": "the tree stays within its depth and its number of agents",
    "grants": "no agent may do or hand down more than its parent may hand down",
    "incarnations": "what belongs to an ended life has no effect on the next one",
    "leftovers": "nothing is left when the run has ended: no wait, call, request, slot or task",
    "log": "events have no gap; run_finished is written once and last",
    "fold": "the ledger is the fold of its events",
    "surprises": "nothing fails by surprise",
    "budgets": "no budget is overdrawn by more than what was in flight",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A rule that did not hold."""

    rule: str
    message: str
    at_s: float  # virtual


class Findings:
    """Counts what was checked and keeps what did not hold."""

    def __init__(self) -> None:
        self.checked: Counter[str] = Counter()
        self.violations: list[Violation] = []
        self.on_violation: Callable[[], None] = lambda: None
        self.now: Callable[[], float] = lambda: 0.0

    def check(self, rule: str, holds: object, message: str) -> None:
        """Count one check of a rule, and keep the message if it does not hold."""
        self.checked[rule] += 1
        if not holds:
            self.fail(rule, message)

    def fail(self, rule: str, message: str) -> None:
        """Keep a violation that was found."""
        if rule not in RULES:
            raise ValueError(f"there is no rule {rule!r}")
        if len(self.violations) < MOST_VIOLATIONS:
            self.violations.append(Violation(rule=rule, message=message, at_s=round(self.now(), 3)))
        self.on_violation()
