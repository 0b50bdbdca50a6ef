"""The parameters of models: what aliases set of them, and what a provider does not pass on."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from prsm_core.config import Settings
    from prsm_core.interfaces.provider import ProviderCapabilities


class ModelParameters(NamedTuple):
    """What the settings say of a model's answers; None leaves it to the vendor."""

    max_response_tokens: int | None = None
    temperature: float | None = None


def model_parameters(provider: str, model: str, settings: Settings) -> ModelParameters:
    """Return what the aliases of a model set; no two of them differ."""
    if not settings.models:
        return ModelParameters()
    found = {
        name: value
        for alias in settings.models.values()
        if (alias.provider, alias.model_id) == (provider, model)
        for name in ModelParameters._fields
        if (value := getattr(alias, name)) is not None
    }
    return ModelParameters(**found)


def describe_ignored(provider: str, settings: Settings, capabilities: ProviderCapabilities) -> str:
    """Return which keys of aliases count for nothing with a provider, for people; else blank."""
    keys = [
        f"models.{alias}.{name}"
        for alias, model in settings.models.items()
        if model.provider == provider
        for name in ModelParameters._fields
        if getattr(model, name) is not None and name not in capabilities.parameters
    ]
    if not keys:
        return ""
    return f"provider {provider} has no switch for {', '.join(keys)}: what is set there is ignored"
