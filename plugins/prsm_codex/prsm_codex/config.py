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
class CodexConfig:
    """How to run Codex.

    `base_url` and `api_key_env` make Codex talk to that server with the key of that environment
    variable; without both it uses the login of `codex login`. `lean` leaves out every built-in
    tool that is not a plain function, for servers that are not OpenAI's. `backend` is app-server
    or exec (one process a turn). `enforcement` is auto, pre_tool (the tool hook, or nothing) or
    approval. `network` lets commands in the sandbox use the network.
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

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], *, section: str = "codex") -> CodexConfig:
        """Check a provider section; `section` names it in errors.

        Raises ConfigError for an unknown key, naming the nearest one, or a value of the wrong kind.
        """
        for key in settings:
            if key not in _PARSERS:
                raise ConfigError(
                    f"providers.{section}: unknown key {key!r}", hint=_nearest(str(key))
                )
        given = {key: value for key, value in settings.items() if value is not None}
        given.pop("profiles", None)  # the engine rotates profiles, it hands over one of them
        config = cls(
            **{key: _PARSERS[key](f"providers.{section}.{key}", v) for key, v in given.items()}
        )
        if config.backend == "exec" and config.enforcement == "approval":
            raise ConfigError(
                f"providers.{section}.enforcement: `codex exec` cannot ask for approval",
                hint="Use `enforcement: pre_tool`, or `backend: app-server`.",
            )
        return config

    @property
    def custom_server(self) -> bool:
        """Whether Codex is pointed at a server by this configuration, not by its own login."""
        return self.base_url is not None or self.api_key_env is not None


def _nearest(key: str) -> str:
    near = difflib.get_close_matches(key, _PARSERS, n=1)
    return f"Did you mean `{near[0]}`?" if near else f"Known keys: {', '.join(sorted(_PARSERS))}."


def _text(where: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"{where}: a text is needed, not {value!r}")
    return value


def _flag(where: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"{where}: true or false is needed, not {value!r}")
    return value


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


def _one_of(*words: str) -> Callable[[str, Any], str]:
    def parse(where: str, value: Any) -> str:
        if value not in words:
            raise ConfigError(f"{where}: one of {', '.join(words)} is needed, not {value!r}")
        return str(value)

    return parse


_PARSERS: dict[str, Callable[[str, Any], Any]] = {
    "api_key_env": _text,
    "backend": _one_of("app-server", "exec"),
    "base_url": _text,
    "command": _argv,
    "enforcement": _one_of("auto", "pre_tool", "approval"),
    "env": _environment,
    "lean": _flag,
    "models": _models,
    "network": _flag,
    "profiles": lambda _, value: value,
}
