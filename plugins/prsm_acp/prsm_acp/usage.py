"""What an agent tells of tokens and cost, as differences; pure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from prsm_acp.manifest import UsageFrom
from prsm_core import (
    Provenance,
    TokenUsage,
    UsageReported,
)
from prsm_core.kit import as_object, token_count

if TYPE_CHECKING:
    from collections.abc import Mapping

_MAX_COST = 1e6  # US dollars
_RESPONSE = {
    "input_tokens": "inputTokens",
    "output_tokens": "outputTokens",
    "cached_input_tokens": "cachedReadTokens",
    "cache_write_tokens": "cachedWriteTokens",
    "reasoning_tokens": "thoughtTokens",
    "total_tokens": "totalTokens",
}
_QUOTA = {"input_tokens": "input_tokens", "output_tokens": "output_tokens"}


class UsageMeter:
    """Remembers what was told, so that each report is what was used since the last."""

    def __init__(self, source: UsageFrom) -> None:
        self._source = source
        self._total: dict[str, int] = {}
        self._cost = 0.0

    def told(self, update: Mapping[str, Any]) -> UsageReported | None:
        """Return the report of a `usage_update`: context and cost, whose total the vendor keeps."""
        cost = self._growth(as_object(update.get("cost")))
        used, window = token_count(update.get("used")), token_count(update.get("size"))
        if cost is None and used is None:
            return None
        return UsageReported(
            TokenUsage(),
            cost_usd=cost,
            cost_provenance=Provenance.REPORTED,
            context_used=used,
            context_window=window,
        )

    def said(self, update: Mapping[str, Any]) -> UsageReported | None:
        """Return the report of a message chunk: the tokens of one response."""
        if self._source is not UsageFrom.CHUNKS:
            return None
        counts = _counts(as_object(update.get("_meta")).get("usage"), _RESPONSE)
        return UsageReported(TokenUsage(**counts)) if counts else None

    def answered(self, reply: Mapping[str, Any]) -> UsageReported | None:
        """Return the report of a prompt's answer: the tokens of the turn."""
        match self._source:
            case UsageFrom.QUOTA:
                quota = as_object(as_object(reply.get("_meta")).get("quota"))
                counts = _counts(quota.get("token_count"), _QUOTA)
            case UsageFrom.NONE | UsageFrom.CHUNKS:
                counts = {}
            case _:
                counts = _counts(reply.get("usage"), _RESPONSE)
        if self._source is not UsageFrom.SESSION:
            for name, count in counts.items():
                self._total[name] = self._total.get(name, 0) + count
            return UsageReported(TokenUsage(**counts)) if counts else None
        growth = {name: count - self._total.get(name, 0) for name, count in counts.items()}
        self._total |= counts
        if not any(growth.values()) or min(growth.values()) < 0:
            return None
        return UsageReported(TokenUsage(**growth), provenance=Provenance.REPORTED)

    def kept(self, counts: Mapping[str, int]) -> UsageReported | None:
        """Return the report of what a session has used, as it keeps it itself."""
        growth = {name: max(0, n - self._total.get(name, 0)) for name, n in counts.items()}
        self._total |= counts
        return UsageReported(TokenUsage(**growth)) if any(growth.values()) else None

    def _growth(self, cost: Mapping[str, Any]) -> float | None:
        amount = cost.get("amount")
        if cost.get("currency") != "USD" or not isinstance(amount, (int, float)):
            return None
        if not math.isfinite(amount) or not self._cost < amount < _MAX_COST:
            return None
        growth, self._cost = amount - self._cost, float(amount)
        return growth


def _counts(told: Any, names: Mapping[str, str]) -> dict[str, int]:
    found = {name: token_count(as_object(told).get(key)) for name, key in names.items()}
    return {name: count for name, count in found.items() if count is not None}
