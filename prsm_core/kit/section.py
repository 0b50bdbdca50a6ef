"""Reading a provider's section of the configuration, with errors that name the place.

A section is read by a table of parsers, one a key:

    parsers = {"base_url": parse_url, "command": parse_argv, "region": parse_choice("eu", "us")}
    values = read_section("providers.mine", settings, parsers)
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from prsm_core.domain.models import ModelInfo
from prsm_core.domain.record import Record
from prsm_core.errors import ConfigError

Parser = Callable[[str, Any], Any]
"""Takes the place in the configuration and a value; returns what the plugin wants of it.

It raises ConfigError, with the place, for a value that is wrong.
"""


class Key(Record, frozen=True):
    """A parser, its key's meaning for people, and the JSON Schema of its values unless known."""

    parser: Parser
    description: str
    schema: Mapping[str, Any] | None = None

    def __call__(self, where: str, value: Any) -> Any:
        """Parse a value; see Parser."""
        return self.parser(where, value)


ENGINE_KEYS = frozenset({"kind", "profiles"})  # the engine has acted on them already
_MODEL_KEYS = ("context_window", "display_name", "hidden", "reasoning_efforts")


def read_section(
    where: str, settings: Mapping[str, Any], parsers: Mapping[str, Parser]
) -> dict[str, Any]:
    """Return the set values of a section but the engine's; ConfigError for a wrong value or key."""
    for key in settings:
        if key not in parsers and key not in ENGINE_KEYS:
            raise ConfigError(f"{where}: unknown key {key!r}", hint=_nearest(str(key), parsers))
    return {
        key: parsers[key](f"{where}.{key}", value)
        for key, value in settings.items()
        if value is not None and key not in ENGINE_KEYS
    }


def _nearest(key: str, known: Mapping[str, Parser]) -> str:
    import difflib

    near = difflib.get_close_matches(key, known, n=1)
    return f"Did you mean `{near[0]}`?" if near else f"Known keys: {', '.join(sorted(known))}."


def parse_text(where: str, value: Any) -> str:
    """Take a text that is not blank."""
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"{where}: a text is needed, not {value!r}")
    return value


def parse_url(where: str, value: Any) -> str:
    """Take the address of a server: http or https, and a host."""
    address = parse_text(where, value)
    if not _is_server_url(address):
        raise ConfigError(
            f"{where}: the address of a server is needed, not {value!r}",
            hint="write it in full, such as `https://host.example/v1`",
        )
    return address


def _is_server_url(address: str) -> bool:
    try:
        parts = urlsplit(address)
        has_port = parts.port != 0  # raises ValueError for what is no port
    except ValueError:
        return False
    has_blank = any(char.isspace() for char in address)
    return parts.scheme in {"http", "https"} and bool(parts.hostname) and has_port and not has_blank


def parse_flag(where: str, value: Any) -> bool:
    """Take true or false."""
    if not isinstance(value, bool):
        raise ConfigError(f"{where}: true or false is needed, not {value!r}")
    return value


def parse_argv(where: str, value: Any) -> tuple[str, ...]:
    """Take a program and its arguments: a list, or text that is split as a shell would."""
    return _split(where, value, "a program and its arguments are needed")


def parse_words(where: str, value: Any) -> tuple[str, ...]:
    """Take one word or more: a list, or text that is split as a shell would."""
    return _split(where, value, "a list of words is needed")


def _split(where: str, value: Any, needed: str) -> tuple[str, ...]:
    found = shlex.split(value) if isinstance(value, str) else value
    if not isinstance(found, (list, tuple)) or not found:
        raise ConfigError(f"{where}: {needed}, not {value!r}")
    return tuple(parse_text(where, word) for word in found)


def parse_environment(where: str, value: Any) -> dict[str, str]:
    """Take variables and their values."""
    if not isinstance(value, Mapping):
        raise ConfigError(f"{where}: a mapping of variables is needed, not {value!r}")
    return {parse_text(where, name): str(setting) for name, setting in value.items()}


def parse_choice(*known: str) -> Parser:
    """Return the parser of a word that must be one of these."""

    def parse(where: str, value: Any) -> str:
        if value not in known:
            raise ConfigError(f"{where}: one of {', '.join(known)} is needed, not {value!r}")
        return str(value)

    return Key(parse, "", {"enum": list(known)})


def parse_models(where: str, value: Any) -> tuple[ModelInfo, ...]:
    """Take model names: a list, or a mapping from each to what is known of it."""
    if isinstance(value, (list, tuple)):
        value = {parse_text(where, name): {} for name in value}
    if not isinstance(value, Mapping):
        raise ConfigError(f"{where}: a list of model names is needed, not {value!r}")
    return tuple(_model(f"{where}.{name}", name, details) for name, details in value.items())


def _model(where: str, name: str, details: Any) -> ModelInfo:
    details = {} if details is None else details
    if not isinstance(details, Mapping) or not set(details) <= set(_MODEL_KEYS):
        raise ConfigError(f"{where}: known keys are {', '.join(_MODEL_KEYS)}, not {details!r}")
    efforts = tuple(details.get("reasoning_efforts", ()))
    return ModelInfo(model_id=name, **{**details, "reasoning_efforts": efforts})
