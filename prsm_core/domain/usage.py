"""What was used: tokens and cost, as far as a provider tells them, and where they come from.

All sums and all lines about them for people are made here: `total` adds up turns, agents or
subtrees, `Spent.text` says what came out. What is known is added, what is unknown is counted and
told beside it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from prsm_core.domain.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

CENT = 0.01
_DIGITS = 9  # of a dollar: a sum of whole billionths is the same in whatever order it is made


def _add(a: int | None, b: int | None) -> int | None:
    if a is None:
        return b
    return a if b is None else a + b


def _sub(a: int | None, b: int | None) -> int | None:
    return a if a is None or b is None else a - b


class TokenUsage(Record, frozen=True, gc=False, kw_only=True):
    """Tokens of one report, one turn or a whole subtree; None means unknown, never zero.

    Input includes what came from and went to a cache, output what was thought. A sum takes what is
    known; its total counts also parts that told only input and output.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_input_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    total_tokens: int | None = None

    def __add__(self, other: TokenUsage) -> TokenUsage:
        """Return the sum of what is known."""
        if other == NO_TOKENS or self == NO_TOKENS:
            return self if other == NO_TOKENS else other
        counts = {name: _add(getattr(self, name), getattr(other, name)) for name in _NAMES}
        if counts["total_tokens"] is not None:
            counts["total_tokens"] = _add(self.known_total, other.known_total)
        return TokenUsage(**counts)

    def __sub__(self, other: TokenUsage) -> TokenUsage:
        """Return the difference; what is unknown in `self` stays unknown."""
        counts = {name: _sub(getattr(self, name), getattr(other, name)) for name in _NAMES}
        if counts["total_tokens"] is not None:
            counts["total_tokens"] = _sub(self.known_total, other.known_total)
        return TokenUsage(**counts)

    @property
    def known_total(self) -> int | None:
        """The total, or else what is known of input and output; None when neither is."""
        if self.total_tokens is not None:
            return self.total_tokens
        return _add(self.input_tokens, self.output_tokens)

    @property
    def of_unknown_kind(self) -> int | None:
        """What `known_total` has beyond input and output; None without a total.

        In a sum it is what vendors used that told no kinds; below zero if a total is less than its
        parts.
        """
        total = self.known_total
        if total is None:
            return None
        return total - (self.input_tokens or 0) - (self.output_tokens or 0)

    @property
    def is_whole(self) -> bool:
        """Whether `known_total` leaves nothing out: a total was told, or both of its parts."""
        if self.total_tokens is not None:
            return True
        return self.input_tokens is not None and self.output_tokens is not None

    def to_dict(self) -> dict[str, int | None]:
        """Return the counts by name, unknown ones as None."""
        return asdict(self)


NO_TOKENS = TokenUsage()
_NAMES = TokenUsage.__struct_fields__


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


class Spent(Record, frozen=True, gc=False, kw_only=True):
    """What one turn, one agent or a whole subtree used, and where the numbers come from.

    A sum holds what is known, in whatever order it is made. Turns that did not tell all are
    counted: with some the number is a lower bound.
    """

    usage: TokenUsage = TokenUsage()
    cost_usd: float | None = None
    tokens_from: Provenance = Provenance.UNKNOWN
    cost_from: Provenance = Provenance.UNKNOWN
    turns_without_tokens: int = 0  # of closed turns: those that told none, or only a part
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
        if cost_usd is None and usage == NO_TOKENS:
            return _UNTOLD
        measured, knows_tokens = Provenance.MEASURED, usage.known_total is not None
        return cls(
            usage=usage,
            cost_usd=_rounded(cost_usd),
            tokens_from=(tokens_from or measured) if knows_tokens else _UNKNOWN,
            cost_from=_UNKNOWN if cost_usd is None else cost_from or measured,
            turns_without_tokens=int(not usage.is_whole),
            turns_without_cost=int(cost_usd is None),
        )

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> Spent:
        """Build it from the values of `to_dict`; what they lack is unknown."""
        unknown, sources = told.get("unknown_turns") or {}, told.get("provenance") or {}
        return cls(
            usage=TokenUsage(**{name: told.get(name) for name in _NAMES}),
            cost_usd=told.get("cost_usd"),
            tokens_from=Provenance(sources.get("tokens", _UNKNOWN)),
            cost_from=Provenance(sources.get("cost", _UNKNOWN)),
            turns_without_tokens=unknown.get("tokens", 0),
            turns_without_cost=unknown.get("cost", 0),
        )

    def __add__(self, other: Spent) -> Spent:
        """Return the sum of what is known, as certain as its least certain part."""
        cost = other.cost_usd if self.cost_usd is None else self.cost_usd + (other.cost_usd or 0.0)
        return Spent(
            usage=self.usage + other.usage,
            cost_usd=_rounded(cost),
            tokens_from=_of_sum(self.tokens_from, other.tokens_from),
            cost_from=_of_sum(self.cost_from, other.cost_from),
            turns_without_tokens=self.turns_without_tokens + other.turns_without_tokens,
            turns_without_cost=self.turns_without_cost + other.turns_without_cost,
        )

    @property
    def provenance(self) -> dict[str, str]:
        """Where the tokens and the cost come from, as JSON values."""
        return {"tokens": str(self.tokens_from), "cost": str(self.cost_from)}

    @property
    def unknown_turns(self) -> dict[str, int]:
        """How many turns did not tell all their tokens, and how many no cost, as JSON values."""
        return {"tokens": self.turns_without_tokens, "cost": self.turns_without_cost}

    @property
    def counts(self) -> dict[str, int | None]:
        """The tokens by name, None if unknown; input and output lack what is `of_unknown_kind`."""
        usage = self.usage
        of_unknown_kind = {"of_unknown_kind": usage.of_unknown_kind}
        return {**usage.to_dict(), "total_tokens": usage.known_total, **of_unknown_kind}

    def to_dict(self) -> dict[str, Any]:
        """Return the counts by name, the cost, and where they come from, as JSON values."""
        return {
            **self.counts,
            "cost_usd": self.cost_usd,
            "provenance": self.provenance,
            "unknown_turns": self.unknown_turns,
        }

    @property
    def tokens_text(self) -> str:
        """The tokens in words: `1,240`, `1,240 + unknown (2 turns)`, `unknown (1 turn)`."""
        total = self.usage.known_total
        return _with_unknown(None if total is None else f"{total:,}", self.turns_without_tokens)

    @property
    def cost_text(self) -> str:
        """The cost in words: `$0.32`, `about $0.32 + unknown (2 turns)`, `unknown (1 turn)`."""
        known = None if self.cost_usd is None else _dollars(self.cost_usd)
        if known is not None and self.cost_from is Provenance.ESTIMATED:
            known = f"about {known}"
        return _with_unknown(known, self.turns_without_cost)

    @property
    def text(self) -> str:
        """All in words: `tokens: 1,240 (1,000 in, 240 out), cost: unknown (1 turn)`."""
        kinds, tokens = self._kinds, self.tokens_text
        if kinds:
            known, *unknown = tokens.split(" + ", 1)
            tokens = " + ".join([f"{known} ({kinds})", *unknown])
        return f"tokens: {tokens}, cost: {self.cost_text}"

    @property
    def _kinds(self) -> str:
        """What the total is made of, in words; blank where that is not told, or adds up to more."""
        sent, answered = self.usage.input_tokens, self.usage.output_tokens
        rest = self.usage.of_unknown_kind
        if sent is None or answered is None or rest is None or rest < 0:
            return ""
        kinds = f"{sent:,} in, {answered:,} out"
        return f"{kinds}, {rest:,} of unknown kind" if rest else kinds


def total(parts: Iterable[Spent]) -> Spent:
    """Return what all parts used together; no part is dropped, and their order is no matter."""
    return sum(parts, Spent())


_UNKNOWN = Provenance.UNKNOWN
_UNTOLD = Spent(turns_without_tokens=1, turns_without_cost=1)  # by a turn that told nothing


def _of_sum(one: Provenance, other: Provenance) -> Provenance:
    if one is _UNKNOWN or other is _UNKNOWN:
        return other if one is _UNKNOWN else one
    return one.combine(other)


def _rounded(cost: float | None) -> float | None:
    return None if cost is None else round(cost, _DIGITS)


def _dollars(cost: float) -> str:
    if cost >= CENT or cost <= 0:
        return f"${cost:,.2f}"
    return f"${cost:.4f}" if cost >= CENT / 100 else "< $0.0001"


def _with_unknown(known: str | None, turns: int) -> str:
    unknown = f"unknown ({turns} turn{'' if turns == 1 else 's'})" if turns else "unknown"
    if known is None:
        return unknown
    return f"{known} + {unknown}" if turns else known
