"""The provider's section of the configuration, checked."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from prsm_core.domain.models import ModelInfo
from prsm_core.errors import ConfigError

_MODEL_KEYS = ("context_window", "display_name", "hidden", "reasoning_efforts")


class Backend(StrEnum):
    """How Gemini CLI is run."""

    ACP = "acp"  # one process per agent
    HEADLESS = "headless"  # one process per turn
    AUTO = "auto"  # ACP where its library is installed, else headless


@dataclass(frozen=True, slots=True, kw_only=True)
class GeminiConfig:
    """How to run Gemini CLI.

    Attributes:
        backend: See Backend.
        command: The program, with arguments of one's own.
        base_url: A server that speaks Gemini's format, instead of Google's.
        api_key_env: Name of the variable that holds the API key; None = GEMINI_API_KEY, where it
            is set, else the login of `gemini`.
        env: Variables added to the environment of the program.
        models: The models to offer; empty = those that the program lists.
    """

    backend: Backend = Backend.ACP
    command: tuple[str, ...] = ("gemini",)
    base_url: str | None = None
    api_key_env: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    models: tuple[ModelInfo, ...] = ()

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> GeminiConfig:
        """Check the section.

        Raises ConfigError for an unknown key, naming the nearest one, or a value of the wrong kind.
        """
        for key in settings:
            if key not in _PARSERS:
                raise ConfigError(f"{_SECTION}: unknown key {key!r}", hint=_nearest(str(key)))
        given = {key: value for key, value in settings.items() if value is not None}
        for key in _NOT_OURS:
            given.pop(key, None)
        return cls(**{key: _PARSERS[key](f"{_SECTION}.{key}", v) for key, v in given.items()})


def _nearest(key: str) -> str:
    near = difflib.get_close_matches(key, _PARSERS, n=1)
    return f"Did you mean `{near[0]}`?" if near else f"Known keys: {', '.join(sorted(_PARSERS))}."


def _text(where: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"{where}: a text is needed, not {value!r}")
    return value


def _backend(where: str, value: Any) -> Backend:
    try:
        return Backend(value)
    except ValueError:
        known = ", ".join(Backend)
        raise ConfigError(f"{where}: one of {known} is needed, not {value!r}") from None


def _argv(where: str, value: Any) -> tuple[str, ...]:
    words = shlex.split(value) if isinstance(value, str) else value
    if not isinstance(words, (list, tuple)) or not words:
        raise ConfigError(f"{where}: a program and its arguments are needed, not {value!r}")
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


_SECTION = "providers.gemini"
_NOT_OURS = ("kind", "profiles")  # the engine's: it has chosen the plugin, and one of the profiles
_PARSERS: dict[str, Callable[[str, Any], Any]] = {
    "api_key_env": _text,
    "backend": _backend,
    "base_url": _text,
    "command": _argv,
    "env": _environment,
    "kind": _text,
    "models": _models,
    "profiles": lambda _, value: value,
}
