"""What `prsm models` tells: the models of the configuration and of the providers, put together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prsm_core.catalog.offered import offered_models
from prsm_core.catalog.registry import build_model_registry
from prsm_core.catalog.selection import may_fit
from prsm_core.engine.providers.model_choice import ModelChoice, find_recommendable, resolve_peers
from prsm_core.engine.providers.model_names import DEFAULT_MODEL, ModelNames
from prsm_core.engine.providers.registry import configured_specs
from prsm_core.interfaces.provider import ProviderSpec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prsm_core.config import Settings
    from prsm_core.domain.models import ModelCapability, ModelInfo
    from prsm_core.engine.providers.survey import ProviderReport
    from prsm_core.plugins import PluginManager


def known_models(
    settings: Settings, found: Mapping[str, ProviderReport], provider: str | None
) -> list[dict[str, Any]]:
    """Return every model as JSON values, of one provider or all, by provider and id.

    `known_from` says where it was found: alias, registry, provider.
    """
    rows: dict[tuple[str, str], dict[str, Any]] = {}

    def seen(owner: str, model: str, source: str) -> dict[str, Any]:
        row = rows.setdefault((owner, model), _blank(owner, model))
        if source not in row["known_from"]:
            row["known_from"].append(source)
        return row

    for alias, target in settings.models.items():
        seen(target.provider, target.model_id, "alias")["aliases"].append(alias)
    for known in build_model_registry(settings):
        seen(known.provider, known.model_id, "registry").update(_of_registry(known))
    for name, report in found.items():
        for info in report.models:
            row = seen(name, info.model_id, "provider")
            told = _of_provider(info)
            row.update({**told, "context_window": info.context_window or row["context_window"]})
    return [rows[key] for key in sorted(rows) if provider is None or key[0] == provider]


def new_models(settings: Settings, found: Mapping[str, ProviderReport]) -> list[dict[str, Any]]:
    """Return the models that providers list and the registry does not have, as JSON values."""
    registry = build_model_registry(settings)
    return [
        {"provider": name, "model": info.model_id, **_of_provider(info)}
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
    """Return what is to be told of entries that are too short for the registry."""
    known = {model.model_id for model in build_model_registry(settings)}
    return [
        f"model_registry.{model_id} is not ranked: it has no tier, or its provider is not known"
        for model_id in settings.model_registry
        if model_id not in known
    ]


def usable_models(
    settings: Settings, plugins: PluginManager
) -> tuple[list[ModelCapability], Sequence[str]]:
    """Return the models that agents of a run may use, and what is to be told of the others."""
    providers = configured_specs(plugins.collect(ProviderSpec), settings)
    master = ModelChoice(provider=settings.defaults.provider or "", model=DEFAULT_MODEL)
    names = ModelNames(settings=settings, providers=providers)
    missing = resolve_peers(master, names).missing
    notes = [f"peer model {text!r} is left out: no provider of it is installed" for text in missing]
    return find_recommendable(master, names, granted=None), notes


def offered_rows(
    settings: Settings, found: Mapping[str, ProviderReport], complexity: str | None
) -> list[dict[str, Any]]:
    """Return what providers list of the models that agents may use, as a ranking tells them."""
    usable = {name: report.models for name, report in found.items() if report.status.available}
    master = ModelChoice(provider=settings.defaults.provider or "", model=DEFAULT_MODEL)
    peers = resolve_peers(master, ModelNames(settings=settings, providers=found)).names
    registry = build_model_registry(settings)

    def is_allowed(provider: str, model: str) -> bool:
        is_peer = peers is None or f"{provider}/{model}" in peers
        return is_peer and may_fit(registry.get(provider, model), complexity)

    return offered_models(usable, DEFAULT_MODEL, is_allowed=is_allowed)


def _blank(provider: str, model: str) -> dict[str, Any]:
    return {
        "provider": provider,
        "model": model,
        "aliases": [],
        "known_from": [],
        "tier": None,
        "cost_factor": None,
        "speed_factor": None,
        "affinities": {},
        "display_name": None,
        "context_window": None,
        "reasoning_efforts": [],
        "hidden": False,
    }


def _of_registry(known: ModelCapability) -> dict[str, Any]:
    return {
        "tier": known.tier.value,
        "cost_factor": known.cost_factor,
        "speed_factor": known.speed_factor,
        "affinities": dict(known.affinities),
        "context_window": known.max_context,
    }


def _of_provider(info: ModelInfo) -> dict[str, Any]:
    return {
        "display_name": info.display_name,
        "context_window": info.context_window,
        "reasoning_efforts": list(info.reasoning_efforts),
        "hidden": info.hidden,
    }
