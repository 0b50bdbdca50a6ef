"""Which model fits a task of some complexity."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.domain.models import ModelTier
from prsm_core.errors import ModelNotAvailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from prsm_core.domain.models import ModelCapability

# For each complexity the tiers that fit, the best first; the others are too weak for it.
FITTING = {
    "simple": (ModelTier.ECONOMY, ModelTier.FAST, ModelTier.STRONG, ModelTier.FRONTIER),
    "moderate": (ModelTier.STRONG, ModelTier.FAST, ModelTier.FRONTIER),
    "complex": (ModelTier.FRONTIER, ModelTier.STRONG),
}


def choose_model(
    models: Iterable[ModelCapability],
    complexity: str,
    *,
    is_allowed: Callable[[ModelCapability], bool],
    preferred: ModelCapability | None = None,
) -> ModelCapability | None:
    """Return the allowed model of the tier that fits best, or None if none fits.

    Within a tier `preferred` comes first, then the cheaper, the faster, and the name decides.
    """
    tiers = FITTING[complexity]
    fitting = [model for model in models if model.tier in tiers and is_allowed(model)]
    return min(
        fitting,
        key=lambda model: (
            tiers.index(model.tier),
            model != preferred,
            model.cost_factor,
            -model.speed_factor,
            model.provider,
            model.model_id,
        ),
        default=None,
    )


def may_fit(model: ModelCapability | None, complexity: str | None) -> bool:
    """Return whether a model, of which something is known or nothing, is not surely too weak."""
    return model is None or complexity is None or model.tier in FITTING[complexity]


def check_fit(model: ModelCapability | None, complexity: str) -> None:
    """Raise ModelNotAvailableError for a model that is known to be too weak."""
    if model is None or may_fit(model, complexity):
        return
    names = " or ".join(tier.value for tier in FITTING[complexity])
    raise ModelNotAvailableError(
        f"model {model.model_id} is {model.tier.value}: too weak for a {complexity} task",
        hint=f"leave the model out, or take one that is {names}",
        code="model_unfit",
    )
