"""The arguments of tool calls: a plain look accepts what fits, jsonschema explains what does not.

jsonschema is heavy to import and slow beside a call; a call whose arguments are right never needs
it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Schema = Mapping[str, Any]

_UNDERSTOOD = frozenset(
    {
        "type",
        "description",
        "enum",
        "minLength",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "items",
        "minItems",
        "properties",
        "required",
        "additionalProperties",
    }
)


def fits(schema: Schema, value: object) -> bool:
    """Return whether a value surely fits; False also where the schema says more than is known."""
    if not schema.keys() <= _UNDERSTOOD:
        return False
    if "enum" in schema:
        return isinstance(value, str) and value in schema["enum"] and "type" not in schema
    kind = schema.get("type")
    return isinstance(kind, str) and kind in _CHECKS and _CHECKS[kind](schema, value)


def explain(schema: Schema, value: object) -> tuple[str, str] | None:
    """Return where a value does not fit, as a dotted path, and why; None when it fits."""
    from jsonschema import Draft202012Validator  # heavy: only for a call that is wrong

    error = next(iter(Draft202012Validator(schema).iter_errors(value)), None)
    if error is None:
        return None
    return ".".join(str(part) for part in error.absolute_path), error.message


def _is_string(schema: Schema, value: object) -> bool:
    return isinstance(value, str) and len(value) >= schema.get("minLength", 0)


def _is_boolean(_schema: Schema, value: object) -> bool:
    return isinstance(value, bool)


def _is_number(schema: Schema, value: object) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    if "exclusiveMinimum" in schema and not value > schema["exclusiveMinimum"]:
        return False
    return bool(schema.get("minimum", value) <= value <= schema.get("maximum", value))


def _is_integer(schema: Schema, value: object) -> bool:
    return isinstance(value, int) and _is_number(schema, value)


def _is_array(schema: Schema, value: object) -> bool:
    if not isinstance(value, list) or len(value) < schema.get("minItems", 0):
        return False
    items = schema.get("items", {})
    return all(fits(items, item) for item in value)


def _is_object(schema: Schema, value: object) -> bool:
    if not isinstance(value, dict) or not value.keys() >= set(schema.get("required", ())):
        return False
    properties = schema.get("properties", {})
    return all(name in properties and fits(properties[name], item) for name, item in value.items())


_CHECKS: Mapping[str, Callable[[Schema, object], bool]] = {
    "string": _is_string,
    "boolean": _is_boolean,
    "number": _is_number,
    "integer": _is_integer,
    "array": _is_array,
    "object": _is_object,
}
