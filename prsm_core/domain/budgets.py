"""Budgets: how much of what a run, or a part of its tree, may use up."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from prsm_core.domain.record import Record


class BudgetKind(StrEnum):
    """What a budget counts."""

    TOKENS = "tokens"
    USD = "usd"
    TURNS = "turns"
    SPAWNS = "spawns"


class Budget(Record, frozen=True, gc=False, kw_only=True):
    """Limits of an agent and all below it; None is no limit."""

    tokens: int | None = None
    usd: float | None = None
    turns: int | None = None
    spawns: int | None = None

    def __post_init__(self) -> None:
        """Refuse a limit below zero, or one that is no number."""
        for name, limit in self.to_dict().items():
            if not limit >= 0:
                raise ValueError(f"a budget of {limit} {name}")

    def within(self, ceiling: Budget) -> Budget:
        """Return the smaller limit of each kind."""
        if ceiling == NO_LIMITS or self == NO_LIMITS:
            return self if ceiling == NO_LIMITS else ceiling
        limits: dict[str, Any] = {
            name: _smaller(getattr(self, name), getattr(ceiling, name)) for name in _KINDS
        }
        return Budget(**limits)

    def moved(self, before: Budget, now: Budget) -> Budget:
        """Return these limits below a ceiling that changed: what only came from it follows it."""
        if before == now:
            return self.within(now)
        own: dict[str, Any] = {
            name: None if getattr(self, name) == getattr(before, name) else getattr(self, name)
            for name in _KINDS
        }
        return Budget(**own).within(now)

    def fits(self, ceiling: Budget) -> bool:
        """Return whether no limit is above that of `ceiling`."""
        return self.within(ceiling) == self

    def to_dict(self) -> dict[str, int | float]:
        """Return the limits that there are, by kind."""
        return {name: limit for name in _KINDS if (limit := getattr(self, name)) is not None}


_KINDS = Budget.__struct_fields__
NO_LIMITS = Budget()


def _smaller(one: float | None, other: float | None) -> float | None:
    return min((limit for limit in (one, other) if limit is not None), default=None)
