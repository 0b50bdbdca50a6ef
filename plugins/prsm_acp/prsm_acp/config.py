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


@dataclass(frozen=True, slots=True, kw_only=True)
class AcpConfig:
    """How to run an ACP agent.

    Attributes:
        section: The name of the section, which is the provider's name.
        agent: The built-in manifest to begin with; None = none, `command` says all.
        command: Instead of the manifest's.
        base_url: Where the vendor's API is found.
        api_key_env: Name of the variable that holds the API key.
        env: Variables added to the agent's environment.
        home: The folder that holds the vendor's login; None = the user's own.
        pass_env: Names of variables that it gets from the user's environment.
        models: The models that may be used; empty = those the agent lists.
        auth_method: The id of the login that `authenticate` is called with; None = not called.
        mode: The id of the agent's mode; None = by the manifest.
    """

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
        """Check a provider section; `section` names it in errors.

        Raises ConfigError for an unknown key, naming the nearest one, or a value of the wrong kind.
        """
        where = f"providers.{section}"
        return cls(section=section, **read_section(where, settings, KEYS))


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

SETTINGS = model_of_keys("AcpSettings", KEYS, AcpConfig.from_settings)
