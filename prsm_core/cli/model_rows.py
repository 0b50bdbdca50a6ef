"""The rows of `prsm models`, from the configuration and the providers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prsm_core.catalog.ranking import offered_models
from prsm_core.catalog.selection import build_model_registry, may_fit
from prsm_core.domain.notes import ModelChoice
from prsm_core.engine.door.offers import of_provider
from prsm_core.engine.providers.model_choice import find_recommendable, resolve_peers
from prsm_core.engine.providers.model_names import DEFAULT_MODEL, ModelNames
from prsm_core.engine.providers.registry import configured_specs
from prsm_core.interfaces.provider import ProviderSpec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prsm_core.config import Settings
    from prsm_core.domain.models import ModelCapability
    from prsm_core.engine.providers.listings import ProviderReport
    from prsm_core.plugins import PluginManager


def new_models(settings: Settings, found: Mapping[str, ProviderReport]) -> list[dict[str, Any]]:
    """Return the models that providers list and the registry does not have, as JSON values."""
    registry = build_model_registry(settings)
    return [
        {"provider": name, "model": info.model_id, **of_provider(info)}
        for name in sorted(found)
        for info in sorted(found[name].models, key=lambda info: info.model_id)
        if registry.get(name, info.model_id) is None
    ]


def listing_problems(found: Mapping[str, ProviderReport]) -> dict[str, str]:
    """Return why providers could not list their models, by name."""
    problems = {}
    for name in sorted(found):
        status, problem = found[name].status, found[name].models_problem
        if not status.available:
            problem = status.reason or "it cannot be used"
        if problem:
            problems[name] = problem
    return problems


def unused_entries(settings: Settings) -> list[str]:
    """Return a note for each entry that says too little to be ranked."""
    known = {model.model_id for model in build_model_registry(settings)}
    return [
        f"model_registry.{model_id} is not ranked: it has no tier, or its provider is not known"
        for model_id in settings.model_registry
        if model_id not in known
    ]


def usable_models(
    settings: Settings, plugins: PluginManager
) -> tuple[list[ModelCapability], Sequence[str]]:
    """Return the models that agents of a run may use, and notes about the others."""
    providers = configured_specs(plugins.collect(ProviderSpec), settings)
    master = ModelChoice(provider=settings.defaults.provider or "", model=DEFAULT_MODEL)
    absent = plugins.absent(ProviderSpec)
    names = ModelNames(settings=settings, providers=providers, absent=absent)
    missing = resolve_peers(master, names).missing
    notes = [f"a peer model is left out: {why}" for why in missing]
    return find_recommendable(master, names, granted=None), notes


def offered_rows(
    settings: Settings, found: Mapping[str, ProviderReport], complexity: str | None
) -> list[dict[str, Any]]:
    """Return rows like a ranking's for the models that providers list and agents may use."""
    usable = {name: report.models for name, report in found.items() if report.status.available}
    master = ModelChoice(provider=settings.defaults.provider or "", model=DEFAULT_MODEL)
    peers = resolve_peers(master, ModelNames(settings=settings, providers=found)).names
    registry = build_model_registry(settings)

    def is_allowed(provider: str, model: str) -> bool:
        is_peer = peers is None or f"{provider}/{model}" in peers
        return is_peer and may_fit(registry.get(provider, model), complexity)

    return offered_models(usable, DEFAULT_MODEL, is_allowed=is_allowed)
