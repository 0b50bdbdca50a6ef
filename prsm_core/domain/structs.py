"""Structs at an edge: the JSON Schema of one, and what is wrong with a value that it is to be.

A value that is right costs one `msgspec.convert`. The rest is for schemas that are shown to models,
and for errors.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Schema = Mapping[str, Any]
    Path = Sequence[str | int]

_MOST_SHOWN = 80  # characters of a value that is wrong
_EACH = "*"  # a step to a value of a mapping whose key msgspec does not tell
_PLACE = re.compile(r" - at (?P<of_key>`key` in )?`\$(?P<path>[^`]*)`$")
_STEP = re.compile(r"\.(?P<field>[^.\[]+)|\[(?P<n>\d+)\]|\[\.\.\.\]")
_EXPECTED = re.compile(r"Expected `(?P<kind>.+?)`(?P<rule>.*?)(?:, got `.+`)?$", re.DOTALL)
_FIELD = re.compile(r"Object (?P<what>missing|contains).* field `(?P<name>.*)`$", re.DOTALL)
# As JSON Schema calls them: that is what models have read of their arguments.
_NAMES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}
_PYTHON_NAME = re.compile(r"\b(str|int|float|bool)\b")


def fits(kind: type[msgspec.Struct], value: object) -> bool:
    """Return whether a value of JSON can be read as a struct."""
    return _error_of(kind, value) is None


def find_fault(kind: type[msgspec.Struct], value: object) -> tuple[str, str] | None:
    """Return where a value does not fit, as a dotted path, and why; None when it fits."""
    text = _error_of(kind, value)
    if text is None:
        return None
    place = _PLACE.search(text)
    if place is None:
        return "", _reason(text, json_schema(kind), value)
    path = _named(kind, value, place["path"])
    reason = text[: place.start()]
    if place["of_key"]:
        why = f"a name in it: {_in_words(reason)}"
    else:
        why = _reason(reason, _schema_at(json_schema(kind), path), _at(value, path))
    return ".".join(map(str, path)), why


@cache
def json_schema(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the JSON Schema of a struct, with those of its parts inside.

    It has no titles, and of descriptions only those that fields are annotated with.

    Raises:
        TypeError: the struct has no such schema; one that holds itself has none.
    """
    (schema,), parts = msgspec.json.schema_components([kind], ref_template="{name}")
    return _inlined(schema, parts, ())


def _inlined(schema: Schema, parts: Schema, within: tuple[str, ...]) -> dict[str, Any]:
    if "$ref" in schema:
        name = schema["$ref"]
        if name in within:
            raise TypeError(f"{name} holds itself, which no schema without references can say")
        part = {key: value for key, value in parts[name].items() if key != "description"}
        told = {key: value for key, value in schema.items() if key != "$ref"}
        return _inlined(part | told, parts, (*within, name))
    plain: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "properties":
            plain[key] = {name: _inlined(inner, parts, within) for name, inner in value.items()}
        elif key in {"items", "additionalProperties", "propertyNames"} and isinstance(value, dict):
            plain[key] = _inlined(value, parts, within)
        elif key in {"anyOf", "prefixItems"}:
            plain[key] = [_inlined(inner, parts, within) for inner in value]
        elif key not in {"title", "discriminator"}:
            plain[key] = value
    return _joined(plain) if "anyOf" in plain else plain


def _joined(schema: dict[str, Any]) -> dict[str, Any]:
    """Return `anyOf` as one schema of several types, where what it says is of one type each."""
    options = schema["anyOf"]
    names = [key for option in options for key in option if key != "type"]
    is_plain = all(isinstance(option.get("type"), str) for option in options)
    if not is_plain or len(names) != len(set(names)) or {"enum", "const"} & set(names):
        return schema
    joined = {key: value for option in options for key, value in option.items()}
    rest = {key: value for key, value in schema.items() if key != "anyOf"}
    return rest | joined | {"type": [option["type"] for option in options]}


def _error_of(kind: type[msgspec.Struct], value: object) -> str | None:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        return str(error)
    return None


def _named(kind: type[msgspec.Struct], value: object, place: str) -> Path:
    """Return a path with the keys that msgspec does not tell: those of the first wrong values."""
    steps = _STEP.finditer(place)
    path: Path = [int(step["n"]) if step["n"] else step["field"] or _EACH for step in steps]
    while _EACH in path:
        before, after = path[: path.index(_EACH)], path[path.index(_EACH) + 1 :]
        mapping = _at(value, before)
        if not isinstance(mapping, dict):
            break
        wrong = (
            key
            for key, item in mapping.items()
            if _error_of(kind, _replaced(value, before, {key: item})) is not None
        )
        path = [*before, next(wrong, "?"), *after]
    return path


def _replaced(value: Any, path: Path, new: object) -> Any:
    if not path:
        return new
    copy = value.copy()
    copy[path[0]] = _replaced(value[path[0]], path[1:], new)
    return copy


def _at(value: Any, path: Path) -> Any:
    for step in path:
        try:
            value = value[step]
        except (LookupError, TypeError):
            return None
    return value


def _schema_at(schema: Schema, path: Path) -> Schema:
    for step in path:
        others = schema.get("items", schema.get("additionalProperties"))
        inner = schema.get("properties", {}).get(step, others)
        schema = inner if isinstance(inner, dict) else {}
    return schema


def _reason(text: str, schema: Schema, value: object) -> str:
    """Return why a value is wrong: what is expected there, and what it is."""
    field = _FIELD.match(text)
    if field is not None:
        return f"`{field['name']}` is {'missing' if field['what'] == 'missing' else 'unknown'}"
    options = schema.get("enum")
    if options is not None:
        return f"expected one of {', '.join(map(_shown, options))}, got {_shown(value)}"
    return f"{_in_words(text)}, got {_shown(value)}" if _EXPECTED.match(text) else text


def _in_words(text: str) -> str:
    expected = _EXPECTED.match(text)
    if expected is None:
        return text
    kind = _PYTHON_NAME.sub(lambda name: _NAMES[name[0]], expected["kind"])
    return f"expected {kind}{expected['rule'].removesuffix('.0')}"


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"
