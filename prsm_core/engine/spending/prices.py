"""Prices: what a person says that tokens of a model cost, for vendors that do not tell it in time.

PRSM knows no price of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.domain.record import Record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prsm_core.config.limits import PriceSettings
    from prsm_core.domain.usage import TokenUsage

_MILLION = 1_000_000


class Price(Record, frozen=True, kw_only=True):
    """US dollars for a million tokens; what a cache gave costs as other input unless it is said."""

    input: float
    output: float
    cached_input: float | None = None

    def cost(self, usage: TokenUsage) -> float | None:
        """Return what tokens cost, in US dollars; None where input or output is not known."""
        sent, answered = usage.input_tokens, usage.output_tokens
        if sent is None or answered is None:
            return None
        cached = min(usage.cached_input_tokens or 0, sent)
        of_cached = self.input if self.cached_input is None else self.cached_input
        spent = (sent - cached) * self.input + cached * of_cached + answered * self.output
        return spent / _MILLION


def price_of(prices: Mapping[str, PriceSettings], provider: str, model: str) -> Price | None:
    """Return the price of `provider/model`, else that of all models of the provider, if any."""
    said = prices.get(f"{provider}/{model}", prices.get(provider))
    if said is None:
        return None
    return Price(input=said.input, output=said.output, cached_input=said.cached_input)
