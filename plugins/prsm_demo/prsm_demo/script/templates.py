"""Templates: values of a scenario that are copied from what was answered earlier."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_TEMPLATE = re.compile(r"\$\{(?:/(?P<regex>.+?)/|(?P<path>[\w-]+(?:\.[\w-]+)*))\}")


class TemplateError(Exception):
    """A template names what the conversation does not hold."""


def fill(value: Any, outputs: Mapping[str, str], text: str) -> Any:
    """Return `value` with its templates replaced; raise TemplateError where one has no value."""
    if isinstance(value, dict):
        return {key: fill(inner, outputs, text) for key, inner in value.items()}
    if isinstance(value, list):
        return [fill(inner, outputs, text) for inner in value]
    if not isinstance(value, str):
        return value
    whole = _TEMPLATE.fullmatch(value)
    if whole:
        return _value(whole, outputs, text)
    return _TEMPLATE.sub(lambda match: as_text(_value(match, outputs, text)), value)


def plain_parts(text: str) -> list[str]:
    """Return what stands between the templates of a text, and before and behind them."""
    parts, position = [], 0
    for template in _TEMPLATE.finditer(text):
        parts.append(text[position : template.start()])
        position = template.end()
    return [*parts, text[position:]]


def as_text(value: Any) -> str:
    """Return a text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value)


def _value(match: re.Match[str], outputs: Mapping[str, str], text: str) -> Any:
    if match["regex"]:
        found = re.findall(match["regex"], text)
        if not found:
            raise TemplateError(f"{match[0]}: nothing in the request matches")
        return int(found[-1]) if found[-1].isdecimal() else found[-1]
    name, *path = match["path"].split(".")
    if name not in outputs:
        raise TemplateError(f"{match[0]}: no call `{name}` has an output yet")
    value: Any = outputs[name]
    try:
        value = json.loads(value) if path else value
        for key in path:
            value = value[int(key)] if isinstance(value, list) else value[key]
    except (ValueError, LookupError, TypeError) as error:
        raise TemplateError(f"{match[0]}: not in {outputs[name]!r}") from error
    return value
