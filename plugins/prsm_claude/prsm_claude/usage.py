"""Tokens and cost of one session."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from prsm_core import Provenance, TokenUsage, UsageReported
from prsm_core.kit import as_object, token_count

Json = Mapping[str, Any]
Counts = dict[str, int]

_MAX_COST = 1e6
_KEYS = (
    "input_tokens",
    "output_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
)


class UsageMeter:
    """Reports growth. The CLI tells the cost as a sum over the session's whole life.

    spent_usd: What the session has cost so far; None if that is not known.
    """

    def __init__(self, cost_provenance: Provenance = Provenance.REPORTED) -> None:
        self.spent_usd: float | None = 0.0
        self._cost_provenance = cost_provenance
        self._response: Counts = {}
        self._turn: Counts = {}
        self._used: int | None = None
        self._window: int | None = None

    def begin(self, message: Json) -> None:
        """Take the input of a response from its `message_start`."""
        self._response = _counts(message.get("usage"))

    def progress(self, usage: object) -> None:
        """Take the output of a response from its `message_delta`."""
        # An interrupted response tells zeros at its end.
        new, old = _counts(usage), self._response
        self._response = {key: max(new.get(key, 0), old.get(key, 0)) for key in new | old}

    def response_ended(self) -> list[UsageReported]:
        """Report what a response used."""
        counts, self._response = self._response, {}
        if not counts:
            return []
        turn = self._turn
        self._turn = {key: turn.get(key, 0) + counts.get(key, 0) for key in turn | counts}
        self._used = _usage(counts).known_total
        return [self._report(counts)]

    def turn_ended(self, usage: object, by_model: object, cost_usd: object) -> list[UsageReported]:
        """Report what a result adds to the responses: side requests, and the cost."""
        counts, known = _counts(usage), self._turn
        self.turn_lost()
        self._window = _window(by_model) or self._window
        rest = {key: count - known.get(key, 0) for key, count in counts.items()}
        if not any(rest.values()) or min(rest.values()) < 0:
            rest = {}
        grown = self._growth(cost_usd)
        return [self._report(rest, grown)] if rest or grown is not None else []

    def turn_lost(self) -> None:
        """Forget a turn that ends without a result."""
        self._turn, self._response = {}, {}

    def _growth(self, told: object) -> float | None:
        if isinstance(told, bool) or not isinstance(told, (int, float)):
            return None
        total, before = float(told), self.spent_usd
        if not (math.isfinite(total) and 0 <= total <= _MAX_COST):
            return None
        self.spent_usd = total
        return None if before is None or total < before else total - before

    def _report(self, counts: Counts, cost_usd: float | None = None) -> UsageReported:
        return UsageReported(
            _usage(counts),
            cost_usd=cost_usd,
            cost_provenance=self._cost_provenance,
            context_used=self._used,
            context_window=self._window,
        )


def _counts(told: object) -> Counts:
    counts = {key: token_count(as_object(told).get(key)) for key in _KEYS}
    return {key: count for key, count in counts.items() if count is not None}


def _usage(counts: Counts) -> TokenUsage:
    """Return counts as PRSM has them, where the input includes what a cache held."""
    fresh, output = counts.get("input_tokens"), counts.get("output_tokens")
    read = counts.get("cache_read_input_tokens")
    written = counts.get("cache_creation_input_tokens")
    whole = None if fresh is None else fresh + (read or 0) + (written or 0)
    return TokenUsage(
        input_tokens=whole,
        output_tokens=output,
        cached_input_tokens=read,
        cache_write_tokens=written,
        total_tokens=None if whole is None or output is None else whole + output,
    )


def _window(by_model: object) -> int | None:
    """Return the largest context window of the models that were used: the agent's own."""
    models = map(as_object, as_object(by_model).values())
    windows = (token_count(model.get("contextWindow")) for model in models)
    return max(filter(None, windows), default=None)
