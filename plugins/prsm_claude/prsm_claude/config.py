"""The provider's section of the configuration, checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from prsm_core.kit import (
    Key,
    Parser,
    find_key,
    model_of_keys,
    parse_argv,
    parse_environment,
    parse_flag,
    parse_models,
    parse_text,
    parse_url,
    read_section,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prsm_core import ModelInfo

KEYS: dict[str, Parser] = {
    "api_key_env": parse_text,
    "base_url": parse_url,
    "bearer": Key(parse_flag, "Send the key as a bearer token, as some other vendors want it."),
    "command": parse_argv,
    "env": parse_environment,
    "home": parse_text,
    "models": parse_models,
    "project_notes": Key(
        parse_flag, "Whether agents are told what the CLAUDE.md of the repository says."
    ),
}


class ClaudeConfig(Struct, frozen=True, kw_only=True):
    """How to run Claude Code, by default that of the SDK; KEYS describes the settings."""

    command: tuple[str, ...] | None = None
    base_url: str | None = None
    api_key_env: str | None = None
    bearer: bool = False
    env: Mapping[str, str] = field(default_factory=dict)
    models: tuple[ModelInfo, ...] = ()
    home: str | None = None
    project_notes: bool = True

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], *, section: str = "claude") -> ClaudeConfig:
        """Check a provider section, which `section` names in errors; raise ConfigError."""
        return cls(**read_section(f"providers.{section}", settings, KEYS))

    @property
    def custom_server(self) -> bool:
        """Whether the configuration, not the user's own login, says which server to use."""
        return self.base_url is not None or self.api_key_env is not None

    def key(self, environ: Mapping[str, str]) -> str | None:
        """Return the API key from `env` or else `environ`, if it is set."""
        return find_key(self.api_key_env, self.env, environ)


SETTINGS = model_of_keys("ClaudeSettings", KEYS, ClaudeConfig.from_settings)
