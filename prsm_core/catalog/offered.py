"""Models that nothing is known of but that their providers have them: recommended for want of more.

Each provider's default comes first; which of the others is better nobody has said.
"""

from __future__ import annotations

from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from prsm_core.domain.models import ModelInfo

OFFERED = 9  # so many are told at most, if there are not more providers


def offered_models(
    found: Mapping[str, Iterable[ModelInfo]],
    default: str,
    *,
    is_allowed: Callable[[str, str], bool],
) -> list[dict[str, Any]]:
    """Return models as a ranking tells them: the defaults, then what providers list, by turns.

    Args:
        found: What each usable provider lists, which may be nothing.
        default: The name of a provider's default model.
        is_allowed: Whether a provider's model may be told.
    """
    defaults = [
        _row(provider, default, f"what {provider} takes by itself")
        for provider in found
        if is_allowed(provider, default)
    ]
    listed = (
        [
            _row(provider, model.model_id, f"listed by {provider}")
            for model in models
            if not model.hidden and model.model_id != default
            if is_allowed(provider, model.model_id)
        ]
        for provider, models in found.items()
    )
    by_turns = chain.from_iterable(zip_longest(*listed))
    rows = [*defaults, *(row for row in by_turns if row is not None)]
    return rows[: max(OFFERED, len(defaults))]


def _row(provider: str, model: str, reason: str) -> dict[str, Any]:
    unknown = dict.fromkeys(("tier", "score", "cost_factor", "speed_factor"))
    reason = f"{reason}; nothing is known of its strength"
    return {"model": f"{provider}/{model}", **unknown, "reason": reason}
