"""The provider's section of the configuration, checked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from prsm_core.kit import (
    Key,
    Parser,
    model_of_keys,
    parse_environment,
    parse_models,
    parse_text,
    parse_url,
    parse_words,
    read_section,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prsm_core import ModelInfo

KEYS: dict[str, Parser] = {
    "agent": Key(
        parse_text, "The built-in manifest to begin with; without one `command` says all."
    ),
    "api_key_env": parse_text,
    "auth_method": Key(parse_text, "The id of the login that `authenticate` is called with."),
    "base_url": parse_url,
    "command": parse_words,
    "env": parse_environment,
    "home": parse_text,
    "mode": Key(parse_text, "The id of the agent's mode; by default that of the manifest."),
    "models": parse_models,
    "pass_env": Key(parse_words, "Names of variables that it gets from the user's environment."),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AcpConfig:
    """How to run an ACP agent as the provider `section`; KEYS describes the settings."""

    section: str = "acp"
    agent: str | None = None
    command: tuple[str, ...] = ()
    base_url: str | None = None
    api_key_env: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    home: str | None = None
    pass_env: tuple[str, ...] = ()
    models: tuple[ModelInfo, ...] = ()
    auth_method: str | None = None
    mode: str | None = None

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], *, section: str = "acp") -> AcpConfig:
        """Check a provider section, which `section` names in errors; raise ConfigError."""
        return cls(section=section, **read_section(f"providers.{section}", settings, KEYS))


SETTINGS = model_of_keys("AcpSettings", KEYS, AcpConfig.from_settings)
