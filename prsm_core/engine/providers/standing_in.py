"""Which model stands in for one whose provider is not there: one of the same tier. Pure decisions.

Only a name that the user has given a model, an alias or an entry of the registry, is stood in for.
Who names a provider with its model means that one alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.catalog.registry import build_model_registry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from prsm_core.catalog.registry import ModelRegistry
    from prsm_core.domain.models import ModelCapability
    from prsm_core.engine.providers.model_names import ModelNames


def stand_ins(
    wanted: tuple[str, str], registry: ModelRegistry, is_allowed: Callable[[ModelCapability], bool]
) -> list[ModelCapability]:
    """Return the models of the wanted one's tier that others have, the best first.

    The cheaper comes first, then the faster, and the name decides. There are none for a model
    whose tier is not known.
    """
    known = registry.get(*wanted)
    if known is None:
        return []
    return sorted(_alike(known, registry, is_allowed), key=_order)


def _alike(
    known: ModelCapability,
    models: Iterable[ModelCapability],
    is_allowed: Callable[[ModelCapability], bool],
) -> Iterable[ModelCapability]:
    for model in models:
        if model.tier is known.tier and model.provider != known.provider and is_allowed(model):
            yield model


def _order(model: ModelCapability) -> tuple[float, float, str, str]:
    return model.cost_factor, -model.speed_factor, model.provider, model.model_id


def describe_stand_in(text: str, gone: str, provider: str, model: str, names: ModelNames) -> str:
    """Return what is told of a model that an agent got instead of the named one, of who is gone."""
    known = build_model_registry(names.settings).get(provider, model)
    tier = "" if known is None else f" ({known.tier.value})"
    return (
        f"provider {gone} of model {text!r} cannot be used: {provider}/{model}, "
        f"of the same tier{tier}, stands in for it"
    )
