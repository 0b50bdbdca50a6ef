"""The provider's section of the configuration, checked."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from prsm_core.domain.models import ModelInfo
from prsm_core.errors import ConfigError

_MODEL_KEYS = ("context_window", "display_name", "hidden", "reasoning_efforts")


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
        for key in settings:
            if key not in _PARSERS:
                raise ConfigError(
                    f"providers.{section}: unknown key {key!r}", hint=_nearest(str(key))
                )
        given = {key: value for key, value in settings.items() if value is not None}
        for key in _NOT_OURS:
            given.pop(key, None)
        values = {key: _PARSERS[key](f"providers.{section}.{key}", v) for key, v in given.items()}
        return cls(section=section, **values)


def _nearest(key: str) -> str:
    near = difflib.get_close_matches(key, _PARSERS, n=1)
    return f"Did you mean `{near[0]}`?" if near else f"Known keys: {', '.join(sorted(_PARSERS))}."


def _text(where: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"{where}: a text is needed, not {value!r}")
    return value


def _words(where: str, value: Any) -> tuple[str, ...]:
    words = shlex.split(value) if isinstance(value, str) else value
    if not isinstance(words, (list, tuple)) or not words:
        raise ConfigError(f"{where}: a list of words is needed, not {value!r}")
    return tuple(_text(where, word) for word in words)


def _environment(where: str, value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{where}: a mapping of variables is needed, not {value!r}")
    return {_text(where, name): str(setting) for name, setting in value.items()}


def _models(where: str, value: Any) -> tuple[ModelInfo, ...]:
    if isinstance(value, (list, tuple)):
        value = {_text(where, name): {} for name in value}
    if not isinstance(value, Mapping):
        raise ConfigError(f"{where}: a list of model names is needed, not {value!r}")
    return tuple(_model(f"{where}.{name}", name, details) for name, details in value.items())


def _model(where: str, name: str, details: Any) -> ModelInfo:
    details = {} if details is None else details
    if not isinstance(details, Mapping) or not set(details) <= set(_MODEL_KEYS):
        raise ConfigError(f"{where}: known keys are {', '.join(_MODEL_KEYS)}, not {details!r}")
    efforts = tuple(details.get("reasoning_efforts", ()))
    return ModelInfo(model_id=name, **{**details, "reasoning_efforts": efforts})


_NOT_OURS = ("kind", "profiles")  # the engine's: it has chosen the plugin, and one of the profiles
_PARSERS: dict[str, Callable[[str, Any], Any]] = {
    "agent": _text,
    "api_key_env": _text,
    "auth_method": _text,
    "base_url": _text,
    "command": _words,
    "env": _environment,
    "home": _text,
    "kind": _text,
    "mode": _text,
    "models": _models,
    "pass_env": _words,
    "profiles": lambda _, value: value,
}
