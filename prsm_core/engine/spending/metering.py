"""Whether a budget can end a provider's turns: said where it is set, where it cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.engine.spending.prices import price_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prsm_core.config.limits import PriceSettings
    from prsm_core.domain.budgets import Budget
    from prsm_core.interfaces.provider import ProviderCapabilities

_LATE = "only when a turn ends, so that one turn of each of its agents may pass the budget of"
_SOONEST = ("step", "turn", "none")
_NEVER = "perhaps not at all, so that its agents may pass the budget of"


def describe_metering(
    name: str,
    limits: Budget,
    capabilities: ProviderCapabilities,
    whose: str = "",
    prices: Mapping[str, PriceSettings] = {},
) -> str:
    """Return what a provider may spend beyond a budget that is set, for people; blank if nothing.

    A provider that tells what each response used is ended at its next step, and not spoken of.
    `whose` names the subtree that the budget is of; blank is the run. With a price of all models
    of the provider its cost is known as soon as its tokens are.
    """
    parts, of = [], f"{whose} and its children, " if whose else ""
    if limits.tokens is not None and capabilities.tokens_told != "step":
        parts.append(f"its tokens {_how(capabilities.tokens_told)} {of}{limits.tokens:,} tokens")
    cost_told = capabilities.cost_told
    if price_of(prices, name, "") is not None:
        cost_told = min(cost_told, capabilities.tokens_told, key=_SOONEST.index)
    if limits.usd is not None and cost_told != "step":
        parts.append(f"its cost {_how(cost_told)} {of}${limits.usd:g}{_advice(name, capabilities)}")
    return f"provider {name} tells {'; and '.join(parts)}" if parts else ""


def _advice(name: str, capabilities: ProviderCapabilities) -> str:
    """Say what would help: nothing where the tokens are late, too."""
    helps = capabilities.tokens_told == "step"
    return f" (a price for {name} in budgets.prices holds it by an estimate)" if helps else ""


def _how(told: str) -> str:
    """Say when something is told; an unknown word is no promise."""
    return _LATE if told == "turn" else _NEVER
