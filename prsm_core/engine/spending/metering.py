"""Whether a budget can end a provider's turns: said where it is set, where it cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prsm_core.domain.budgets import Budget
    from prsm_core.interfaces.provider import ProviderCapabilities

_LATE = "only when a turn ends, so that one turn of each of its agents may pass the budget of"
_NEVER = "perhaps not at all, so that its agents may pass the budget of"


def describe_metering(
    name: str, limits: Budget, capabilities: ProviderCapabilities, whose: str = ""
) -> str:
    """Return what a provider may spend beyond a budget that is set, for people; blank if nothing.

    A provider that tells what each response used is ended at its next step, and not spoken of.
    `whose` names the subtree that the budget is of; blank is the run.
    """
    parts, of = [], f"{whose} and its children, " if whose else ""
    if limits.tokens is not None and capabilities.tokens_told != "step":
        parts.append(f"its tokens {_how(capabilities.tokens_told)} {of}{limits.tokens:,} tokens")
    if limits.usd is not None and capabilities.cost_told != "step":
        parts.append(f"its cost {_how(capabilities.cost_told)} {of}${limits.usd:g}")
    return f"provider {name} tells {'; and '.join(parts)}" if parts else ""


def _how(told: str) -> str:
    """Say when something is told; an unknown word is no promise."""
    return _LATE if told == "turn" else _NEVER
