"""The model registry: what is known of each model, by provider and id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.domain.models import ModelCapability

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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
    """Return the models of the section `model_registry` whose tier and provider are known.

    A model that names no provider belongs to that of an alias for it, else to the default one.
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
