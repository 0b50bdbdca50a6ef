"""The provider's section of the configuration, checked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from prsm_core import ConfigError
from prsm_core.kit import (
    Key,
    Parser,
    find_key,
    model_of_keys,
    parse_argv,
    parse_choice,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class CodexConfig:
    """How to run Codex; KEYS describes the settings.

    Without `base_url` and `api_key_env` Codex uses the login of `codex login`: the user's own, or
    the one in the folder `home`.
    """

    command: tuple[str, ...] = ("codex",)
    base_url: str | None = None
    api_key_env: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    models: tuple[ModelInfo, ...] = ()
    lean: bool = False
    backend: str = "app-server"
    enforcement: str = "auto"
    network: bool = False
    home: str | None = None

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], *, section: str = "codex") -> CodexConfig:
        """Check a provider section, which `section` names in errors; raise ConfigError."""
        config = cls(**read_section(f"providers.{section}", settings, KEYS))
        if config.backend == "exec" and config.enforcement == "approval":
            raise ConfigError(
                f"providers.{section}.enforcement: `codex exec` cannot ask for approval",
                hint="Use `enforcement: pre_tool`, or `backend: app-server`.",
            )
        return config

    @property
    def custom_server(self) -> bool:
        """Whether the configuration, not Codex's own login, says which server to use."""
        return self.base_url is not None or self.api_key_env is not None

    def key(self, environ: Mapping[str, str]) -> str | None:
        """Return the API key from `env` or else `environ`, if it is set."""
        return find_key(self.api_key_env, self.env, environ)


KEYS: dict[str, Parser] = {
    "api_key_env": parse_text,
    "backend": Key(parse_choice("app-server", "exec"), "app-server, or exec: one process a turn."),
    "base_url": parse_url,
    "command": parse_argv,
    "enforcement": Key(
        parse_choice("auto", "pre_tool", "approval"),
        "auto, pre_tool (the tool hook, or nothing) or approval.",
    ),
    "env": parse_environment,
    "home": parse_text,
    "lean": Key(
        parse_flag,
        "Leave out built-in tools that are no plain functions, for servers that are not OpenAI's.",
    ),
    "models": parse_models,
    "network": Key(parse_flag, "Whether commands in the sandbox use the network."),
}

SETTINGS = model_of_keys("CodexSettings", KEYS, CodexConfig.from_settings)
