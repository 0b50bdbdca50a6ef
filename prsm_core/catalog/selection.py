"""What is known of models, by provider and id, and which of them fits a task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.domain.models import ModelCapability, ModelTier
from prsm_core.errors import ModelNotAvailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from prsm_core.config import Settings


class ModelRegistry:
    """The capabilities of models; immutable."""

    def __init__(self, capabilities: Iterable[ModelCapability]) -> None:
        self._known = {(model.provider, model.model_id): model for model in capabilities}

    def __iter__(self) -> Iterator[ModelCapability]:
        """Iterate over all models, in the order they were given."""
        return iter(self._known.values())

    def get(self, provider: str, model_id: str) -> ModelCapability | None:
        """Return what is known of a model, or None."""
        return self._known.get((provider, model_id))


def build_model_registry(settings: Settings) -> ModelRegistry:
    """Return the models of `model_registry` whose tier and provider are known.

    A model without a provider gets that of an alias for it, else the default one.
    """
    of_alias = {alias.model_id: alias.provider for alias in settings.models.values()}
    capabilities = []
    for model_id, known in settings.model_registry.items():
        provider = known.provider or of_alias.get(model_id) or settings.defaults.provider
        if provider is None or known.tier is None:
            continue
        capabilities.append(
            ModelCapability(
                model_id=model_id,
                provider=provider,
                tier=known.tier,
                affinities={str(name): score for name, score in known.affinities.items()},
                cost_factor=1.0 if known.cost_factor is None else known.cost_factor,
                speed_factor=1.0 if known.speed_factor is None else known.speed_factor,
                max_context=known.max_context,
            )
        )
    return ModelRegistry(capabilities)


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
    """Return the allowed model of the best-fitting tier, or None if none fits.

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
