"""Purses: what one scope of a budget, the run or an agent with all below it, has and has used.

Amounts are whole numbers, tokens or billionths of a dollar, so that what was reserved is given
back to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from prsm_core.domain.budgets import Budget, BudgetKind
from prsm_core.domain.usage import Provenance, Spent

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

NANO = 1_000_000_000
METERED = (BudgetKind.TOKENS, BudgetKind.USD)  # known only as far as a provider tells


def to_units(kind: BudgetKind, amount: float) -> int:
    """Return an amount as the whole number that is counted with."""
    return round(amount * NANO) if kind is BudgetKind.USD else int(amount)


def from_units(kind: BudgetKind, units: int) -> int | float:
    """Return what `to_units` was made of."""
    return units / NANO if kind is BudgetKind.USD else units


def to_limits(budget: Budget) -> dict[BudgetKind, int]:
    """Return the limits of a budget by kind; a kind without one is left out."""
    limits = budget.to_dict()
    return {BudgetKind(name): to_units(BudgetKind(name), limits[name]) for name in limits}


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A subtree with a budget of its own: that of an agent and all below it."""

    agent_id: str
    name: str
    limits: Budget


def _zeroes() -> dict[BudgetKind, int]:
    return dict.fromkeys(BudgetKind, 0)


@dataclass(slots=True, eq=False)
class Purse:
    """One scope: its own limits, what is used and reserved of them, and the scope around it."""

    scope: str | None = None  # an agent's id; None is the run
    name: str = ""  # of that agent, for people
    parent: Purse | None = None
    limits: Mapping[BudgetKind, int] = field(default_factory=dict)
    used: dict[BudgetKind, int] = field(default_factory=_zeroes)
    reserved: dict[BudgetKind, int] = field(default_factory=_zeroes)
    unknown: dict[BudgetKind, int] = field(default_factory=_zeroes)  # turns that told nothing
    sources: dict[BudgetKind, Provenance] = field(default_factory=dict)
    told: set[tuple[str, BudgetKind]] = field(default_factory=set)  # alerts, each given once
    stopped: set[BudgetKind] = field(default_factory=set)  # used up, and who runs was told
    spent: Spent = field(default_factory=Spent)  # by turns that have ended

    def path(self) -> Iterator[Purse]:
        """Yield the purse and those around it, the run's last."""
        purse: Purse | None = self
        while purse is not None:
            yield purse
            purse = purse.parent

    def parts(self) -> Iterator[Part]:
        """Yield the subtrees of the path that have limits of their own, the nearest first."""
        for purse in self.path():
            if purse.scope is not None and purse.limits:
                amounts: dict[str, Any] = {
                    kind.value: from_units(kind, limit) for kind, limit in purse.limits.items()
                }
                yield Part(agent_id=purse.scope, name=purse.name, limits=Budget(**amounts))

    def limited(self, kind: BudgetKind) -> Iterator[tuple[Purse, int]]:
        """Yield the purses of the path that have a limit of this kind, with that limit."""
        for purse in self.path():
            limit = purse.limits.get(kind)
            if limit is not None:
                yield purse, limit

    def room(self, kind: BudgetKind) -> int | None:
        """Return what is neither used nor reserved on the whole path; None without a limit."""
        rooms = [limit - p.used[kind] - p.reserved[kind] for p, limit in self.limited(kind)]
        return max(0, min(rooms)) if rooms else None

    def is_used_up(self, kind: BudgetKind) -> bool:
        """Whether this very scope has a limit of this kind that is reached."""
        return kind in self.limits and self.used[kind] >= self.limits[kind]

    def source(self, kind: BudgetKind) -> Provenance:
        """Return where the number used comes from; that nothing was used yet is a fact."""
        default = Provenance.UNKNOWN if self.unknown[kind] else Provenance.MEASURED
        return self.sources.get(kind, default)

    def used_amount(self, kind: BudgetKind) -> int | float | None:
        """Return what is used, None when all of it is unknown."""
        known = self.source(kind) is not Provenance.UNKNOWN
        return from_units(kind, self.used[kind]) if known else None

    def report(self) -> dict[str, dict[str, Any]]:
        """Return what is used, reserved, left and allowed by kind, as JSON values.

        `left` heeds the scopes around this one too. Limits that there are not are left out.
        """
        return {kind.value: self._report(kind) for kind in BudgetKind}

    def _report(self, kind: BudgetKind) -> dict[str, Any]:
        reserved = from_units(kind, self.reserved[kind])
        line: dict[str, Any] = {"used": self.used_amount(kind), "reserved": reserved}
        left = self.room(kind)
        if left is not None:
            line["left"] = from_units(kind, left)
        if kind in self.limits:
            line["limit"] = from_units(kind, self.limits[kind])
        if kind in METERED:
            line["from"] = self.source(kind).value
        if self.unknown[kind]:
            line["unknown_turns"] = self.unknown[kind]
        return line


@dataclass(slots=True, eq=False)
class Hold:
    """What a launch, or a turn that runs, holds of a purse and of those around it."""

    purse: Purse
    reserved: dict[BudgetKind, int] = field(default_factory=_zeroes)
    used: dict[BudgetKind, int] = field(default_factory=_zeroes)  # told so far
    expected: dict[BudgetKind, int] = field(default_factory=dict)  # reckoned from measured turns
    spent: Spent = field(default_factory=Spent)  # by the turn so far

    def reserve(self, kind: BudgetKind, amount: int) -> None:
        """Set aside that much more, in every scope."""
        for purse in self.purse.path():
            purse.reserved[kind] += amount
        self.reserved[kind] += amount

    def charge(self, kind: BudgetKind, amount: int, source: Provenance) -> None:
        """Count that much as used in every scope; it comes off what is reserved."""
        freed = min(amount, self.reserved[kind])
        self.reserved[kind] -= freed
        self.used[kind] += amount
        for purse in self.purse.path():
            purse.reserved[kind] -= freed
            purse.used[kind] += amount
            known = purse.sources.get(kind)
            purse.sources[kind] = source if known is None else known.combine(source)

    def give_back(self) -> None:
        """Let go of all that is still reserved."""
        for kind, amount in self.reserved.items():
            if amount:
                for purse in self.purse.path():
                    purse.reserved[kind] -= amount
                self.reserved[kind] = 0
