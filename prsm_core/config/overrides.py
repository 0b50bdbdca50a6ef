"""Turns environment variables, --set options and named flags into configuration layers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from prsm_core.config.document import Document, KeyPath, parse_value
from prsm_core.config.layers import Layer
from prsm_core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

PREFIX = "PRSM__"
# Variables of their own for single settings; the value is text, not YAML.
SHORT = {"PRSM_JSONL": ("sinks", "jsonl", "path")}

_KEY = re.compile(r'"([^"]+)"|([^."]+)')


def environment_layers(environ: Mapping[str, str], values: Mapping[str, Any]) -> Iterator[Layer]:
    """Yield a layer for each variable: short ones, then PRSM__SECTION__KEY, specific ones last.

    Keys are lower-cased where they are written in capitals. Where `values`, the layers below,
    have a key that differs in case or in - for _ only, that one is meant.
    """
    for name, short in SHORT.items():
        if environ.get(name):
            value = Document(value=environ[name], origins={(): name})
            yield Layer.at(short, value)
    names = [name for name in environ if name.startswith(PREFIX)]
    for name in sorted(names, key=lambda name: (name.count("__"), name)):
        keys = name.removeprefix(PREFIX).split("__")
        if not all(keys):
            raise ConfigError(f"{name}: is written {PREFIX}SECTION__KEY")
        path = _known_path(keys, values)
        yield Layer.at(path, parse_value(environ[name], origin=name))


def set_layers(sets: Sequence[str]) -> Iterator[Layer]:
    """Yield a layer for each `key.path=value`; a key with dots stands in double quotes."""
    for text in sets:
        key, equals, value = text.partition("=")
        path = parse_key(key.strip())
        if not (equals and path):
            raise ConfigError(
                f"--set {key.strip()}: is written key.path=value",
                hint='the value is YAML; a key with dots stands in quotes: models."gpt-5.1"',
            )
        yield Layer.at(path, parse_value(value, origin=f"--set {key.strip()}"))


def flag_layers(overrides: Mapping[str, Any]) -> Iterator[Layer]:
    """Yield a layer for each dotted key; None means that the flag was not given."""
    for key, value in overrides.items():
        if value is not None:
            origins: dict[KeyPath, str] = {(): "the command line"}
            yield Layer.at(parse_key(key), Document(value=value, origins=origins))


def parse_key(text: str) -> tuple[str, ...]:
    """Split a dotted key path at the dots outside of quotes; () if it is malformed."""
    keys: list[str] = []
    position = 0
    while match := _KEY.match(text, position):
        keys.append(match[1] or match[2])
        position = match.end()
        if position == len(text):
            return tuple(keys)
        if text[position] != ".":
            break
        position += 1
    return ()


def _known_path(keys: Sequence[str], values: Any) -> tuple[str, ...]:
    path = []
    for key in keys:
        below = values if isinstance(values, dict) else {}
        same = [known for known in below if _folded(known) == _folded(key)]
        path.append(same[0] if same else key.lower() if key.isupper() else key)
        values = below.get(path[-1])
    return tuple(path)


def _folded(key: str) -> str:
    return key.lower().replace("-", "_")
