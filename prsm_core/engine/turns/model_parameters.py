"""Find the parameters that aliases set for a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from prsm_core.config import Settings
    from prsm_core.interfaces.provider import ProviderCapabilities


class ModelParameters(NamedTuple):
    """Settings for a model's answers; None leaves one to the vendor."""

    max_response_tokens: int | None = None
    temperature: float | None = None


def model_parameters(provider: str, model: str, settings: Settings) -> ModelParameters:
    """Return what a model's aliases set; no two of them differ."""
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
    """Return a note on alias keys that a provider ignores, or a blank."""
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
