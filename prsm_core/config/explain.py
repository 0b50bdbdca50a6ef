"""Says what is wrong with a configuration: a line for each mistake, its place, what is right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from prsm_core.config.layers import dotted
from prsm_core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

    from prsm_core.config.document import KeyPath

Schema: TypeAlias = dict[str, Any]
SHOWN = 10  # mistakes told at once
_NEXT = "\n  "

_WANTED = {
    "string_type": "text; put it in quotes",
    "int_type": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "mapping_type": "a mapping",
    "model_type": "a mapping",
    "string_too_short": "at least one character long",
    "too_short": "at least one word long",
}


def explain(
    error: ValidationError, origin: Callable[[KeyPath], str], plugins: Sequence[str] = ()
) -> ConfigError:
    """Turn pydantic's errors into one of ours; values are never shown, they may be secret.

    Args:
        error: What the schema found.
        origin: Gives the place of a key path.
        plugins: Names of the installed plugins, told where a section is unknown.
    """
    from prsm_core.config.json_schema import config_schema

    return all_wrong(problems_of(error, origin, schema=config_schema(), plugins=plugins))


def problems_of(
    error: ValidationError,
    origin: Callable[[KeyPath], str],
    *,
    schema: Schema,
    above: KeyPath = (),
    plugins: Sequence[str] = (),
) -> list[str]:
    """Return a line for each mistake, in order of its place.

    `schema` is that of the whole configuration, `above` where in it the model stands.
    """
    problems = []
    for details in error.errors(include_url=False, include_context=False):
        path = (*above, *(key for key in details["loc"] if key != "[key]"))
        problems.append((origin(path), _problem(details, path, plugins, schema)))
    problems.sort(key=lambda problem: _reading_order(problem[0]))
    return [f"{where}: {what}" if where else what for where, what in problems]


def all_wrong(problems: Iterable[str]) -> ConfigError:
    """Return the error that tells of problems, at least one: `SHOWN` of them, a line each."""
    found = list(dict.fromkeys(problems))
    if len(found) == 1:
        return ConfigError(found[0])
    lines = [f"the configuration has {len(found)} mistakes:", *found[:SHOWN]]
    if len(found) > SHOWN:
        lines.append(f"and {len(found) - SHOWN} more")
    return ConfigError(_NEXT.join(lines))


def one_by_one(error: ConfigError) -> Sequence[str]:
    """Return what an error tells of, each problem in a text of its own."""
    _, *problems = error.message.split(_NEXT)
    return problems or [error.message]


def nearest(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean x?" for the known name closest to `name`, or ""."""
    from difflib import get_close_matches

    found = get_close_matches(name, list(known), n=1)
    return f"; did you mean {found[0]}?" if found else ""


def _reading_order(origin: str) -> tuple[str, int]:
    file, _, line = origin.rpartition(":")
    return (file, int(line)) if line.isdecimal() else (origin, 0)


def _problem(details: ErrorDetails, path: KeyPath, plugins: Sequence[str], schema: Schema) -> str:
    kind, name = details["type"], dotted(path)
    if kind == "extra_forbidden" or (kind == "literal_error" and details["loc"][-1] == "[key]"):
        return unknown_key(path, schema, plugins)
    if kind in {"enum", "literal_error"}:
        return f"{name} is none of the allowed values{_allowed(path, details['input'], schema)}"
    if kind == "missing":
        return f"{name} is missing"
    if kind == "value_error":
        return f"{name} {details['msg'].removeprefix('Value error, ')}"
    wanted = _WANTED.get(kind) or details["msg"].removeprefix("Input should be ")
    return f"{name} must be {wanted}"


def unknown_key(path: KeyPath, schema: Schema, plugins: Sequence[str] = ()) -> str:
    """Say that there is no such setting, and which is nearest."""
    key, known = str(path[-1]), _keys_at(path[:-1], schema)
    hint = nearest(key, known) or f"; the settings here are {', '.join(known)}"
    if len(path) == 1 and plugins:
        hint += f"; installed plugins, set under providers: {', '.join(sorted(plugins))}"
    return f"{dotted(path)} is not a setting{hint}"


def _allowed(path: KeyPath, value: Any, schema: Schema) -> str:
    values = [str(each) for each in _node_at(path, schema).get("enum", [])]
    if not values:
        return ""
    return f": {', '.join(values)}{nearest(str(value), values)}"


def _keys_at(path: KeyPath, schema: Schema) -> list[str]:
    node = _node_at(path, schema)
    names = node.get("propertyNames", {}).get("enum", [])
    return [*node.get("properties", names)]


def _node_at(path: KeyPath, schema: Schema) -> Schema:
    """Return the JSON Schema of the value at a key path."""
    node = schema
    for key in path:
        if isinstance(key, int):
            node = node.get("items", {})
        else:
            node = node.get("properties", {}).get(key) or node.get("additionalProperties") or {}
        node = _resolved(node, schema)
    return node


def _resolved(node: Any, schema: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(node, dict):
        return {}
    options = [option for option in node.get("anyOf", ()) if option.get("type") != "null"]
    node = options[0] if options else node
    reference = node.get("$ref")
    found: dict[str, Any] = schema["$defs"][reference.rpartition("/")[2]] if reference else node
    return found
