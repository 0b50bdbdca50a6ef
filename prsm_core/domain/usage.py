"""What was used: tokens and cost, as far as a provider tells them, and where they come from."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any


def _add(a: int | None, b: int | None) -> int | None:
    if a is None:
        return b
    return a if b is None else a + b


def _sub(a: int | None, b: int | None) -> int | None:
    return a if a is None or b is None else a - b


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenUsage:
    """Tokens of one report, one turn or a whole subtree; None means unknown, never zero.

    A sum takes what is known: adding an unknown count leaves the other as it is.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_input_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    total_tokens: int | None = None

    def __add__(self, other: TokenUsage) -> TokenUsage:
        """Return the field-wise sum of what is known."""
        return TokenUsage(
            **{name: _add(getattr(self, name), getattr(other, name)) for name in _NAMES}
        )

    def __sub__(self, other: TokenUsage) -> TokenUsage:
        """Return the field-wise difference; what is unknown in `self` stays unknown."""
        return TokenUsage(
            **{name: _sub(getattr(self, name), getattr(other, name)) for name in _NAMES}
        )

    @property
    def known_total(self) -> int | None:
        """The total, or else what is known of input and output; None when neither is."""
        if self.total_tokens is not None:
            return self.total_tokens
        return _add(self.input_tokens, self.output_tokens)

    def to_dict(self) -> dict[str, int | None]:
        """Return the counts by name, unknown ones as None."""
        return {name: getattr(self, name) for name in _NAMES}


_NAMES = tuple(f.name for f in fields(TokenUsage))


class Provenance(StrEnum):
    """Where a number comes from, the most certain first."""

    MEASURED = "measured"  # the provider told it for this very turn
    REPORTED = "reported"  # the growth of a total that the vendor keeps
    ESTIMATED = "estimated"  # reckoned from others, nobody told it
    UNKNOWN = "unknown"

    def combine(self, other: Provenance) -> Provenance:
        """Return the less certain of the two: that of a sum."""
        return max(self, other, key=_CERTAINTY.index)


_CERTAINTY = tuple(Provenance)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What one turn, one agent or a whole subtree used, and where the numbers come from.

    A sum holds what is known. The turns that told nothing are counted: where there are some, the
    number is a lower bound.
    """

    usage: TokenUsage = TokenUsage()
    cost_usd: float | None = None
    tokens_from: Provenance = Provenance.UNKNOWN
    cost_from: Provenance = Provenance.UNKNOWN
    turns_without_tokens: int = 0
    turns_without_cost: int = 0

    @classmethod
    def of_turn(
        cls,
        usage: TokenUsage,
        cost_usd: float | None,
        tokens_from: Provenance | None = None,
        cost_from: Provenance | None = None,
    ) -> Spent:
        """Return what one closed turn used; what is known counts as measured if nothing is said."""
        knows_tokens, knows_cost = usage.known_total is not None, cost_usd is not None
        return cls(
            usage=usage,
            cost_usd=cost_usd,
            tokens_from=(tokens_from or Provenance.MEASURED) if knows_tokens else _UNKNOWN,
            cost_from=(cost_from or Provenance.MEASURED) if knows_cost else _UNKNOWN,
            turns_without_tokens=int(not knows_tokens),
            turns_without_cost=int(not knows_cost),
        )

    def __add__(self, other: Spent) -> Spent:
        """Return the sum of what is known, as certain as its least certain part."""
        cost = other.cost_usd if self.cost_usd is None else self.cost_usd + (other.cost_usd or 0.0)
        return Spent(
            usage=self.usage + other.usage,
            cost_usd=cost,
            tokens_from=_of_sum(self.tokens_from, other.tokens_from),
            cost_from=_of_sum(self.cost_from, other.cost_from),
            turns_without_tokens=self.turns_without_tokens + other.turns_without_tokens,
            turns_without_cost=self.turns_without_cost + other.turns_without_cost,
        )

    @property
    def provenance(self) -> dict[str, str]:
        """Where the tokens and the cost come from, as JSON values."""
        return {"tokens": self.tokens_from.value, "cost": self.cost_from.value}

    def to_dict(self) -> dict[str, Any]:
        """Return the counts by name, the cost, and where they come from, as JSON values."""
        return {
            **self.usage.to_dict(),
            "cost_usd": self.cost_usd,
            "provenance": self.provenance,
            "unknown_turns": {
                "tokens": self.turns_without_tokens,
                "cost": self.turns_without_cost,
            },
        }


_UNKNOWN = Provenance.UNKNOWN


def _of_sum(one: Provenance, other: Provenance) -> Provenance:
    """Return where a sum comes from; a part that is unknown adds nothing to it."""
    if one is _UNKNOWN or other is _UNKNOWN:
        return other if one is _UNKNOWN else one
    return one.combine(other)
