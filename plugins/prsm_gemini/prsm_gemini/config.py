"""The provider's section of the configuration, checked."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from prsm_core.kit import (
    Key,
    Parser,
    model_of_keys,
    parse_argv,
    parse_choice,
    parse_environment,
    parse_models,
    parse_text,
    parse_url,
    read_section,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prsm_core import ModelInfo


class Backend(StrEnum):
    """How Gemini CLI is run."""

    ACP = "acp"  # one process per agent
    HEADLESS = "headless"  # one process per turn
    AUTO = "auto"  # ACP where prsm-acp is installed, else headless


@dataclass(frozen=True, slots=True, kw_only=True)
class GeminiConfig:
    """How to run Gemini CLI; KEYS describes the settings.

    Without `api_key_env` GEMINI_API_KEY is used, if it is set, or else the login of `gemini`. With
    `home` no key of the user's own environment is used. Without `models` the program lists its own.
    """

    backend: Backend = Backend.ACP
    command: tuple[str, ...] = ("gemini",)
    base_url: str | None = None
    api_key_env: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    models: tuple[ModelInfo, ...] = ()
    home: str | None = None

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> GeminiConfig:
        """Check the section; raise ConfigError."""
        return cls(**read_section("providers.gemini", settings, KEYS))


def _backend(where: str, value: Any) -> Backend:
    return Backend(parse_choice(*Backend)(where, value))


KEYS: dict[str, Parser] = {
    "api_key_env": parse_text,
    "backend": Key(
        _backend,
        "acp (one process per agent), headless (one process per turn) or auto.",
        {"enum": [backend.value for backend in Backend]},
    ),
    "base_url": parse_url,
    "command": parse_argv,
    "env": parse_environment,
    "home": parse_text,
    "models": parse_models,
}

SETTINGS = model_of_keys("GeminiSettings", KEYS, GeminiConfig.from_settings)
