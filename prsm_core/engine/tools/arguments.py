"""The arguments of tool calls: a plain look accepts what fits, jsonschema explains what does not.

jsonschema is heavy to import and slow beside a call; a call whose arguments are right never needs
it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prsm_core.engine.tools.mending import OTHER_WORDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Schema = Mapping[str, Any]
    Check = Callable[[object], bool]

_SAYS_NOTHING = frozenset({"description"})  # of what fits
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
        OTHER_WORDS,
    }
)


def compiled(schema: Schema) -> Check:
    """Return what tells whether a value surely fits the schema, each part of which is walked once.

    Nothing surely fits a schema that says more than is known.
    """
    if schema.keys() <= _SAYS_NOTHING:
        return _always
    if not schema.keys() <= _UNDERSTOOD:
        return _never
    if "enum" in schema:
        return _never if "type" in schema else _one_of(schema["enum"])
    kind = schema.get("type")
    if isinstance(kind, list):
        return _any_of([compiled({**schema, "type": one}) for one in kind])
    return _KINDS[kind](schema) if isinstance(kind, str) and kind in _KINDS else _never


def explain(schema: Schema, value: object) -> tuple[str, str] | None:
    """Return where a value does not fit, as a dotted path, and why; None when it fits."""
    from jsonschema import Draft202012Validator  # heavy: only for a call that is wrong

    error = next(iter(Draft202012Validator(schema).iter_errors(value)), None)
    if error is None:
        return None
    return ".".join(str(part) for part in error.absolute_path), error.message


def _always(_value: object) -> bool:
    return True


def _never(_value: object) -> bool:
    return False


def _one_of(options: Sequence[object]) -> Check:
    return lambda value: isinstance(value, str) and value in options


def _any_of(checks: Sequence[Check]) -> Check:
    return lambda value: any(fits(value) for fits in checks)


def _null(_schema: Schema) -> Check:
    return lambda value: value is None


def _string(schema: Schema) -> Check:
    shortest = schema.get("minLength", 0)
    return lambda value: isinstance(value, str) and len(value) >= shortest


def _boolean(_schema: Schema) -> Check:
    return lambda value: isinstance(value, bool)


def _number(schema: Schema) -> Check:
    def is_number(value: object) -> bool:
        if not isinstance(value, int | float) or isinstance(value, bool):
            return False
        if "exclusiveMinimum" in schema and not value > schema["exclusiveMinimum"]:
            return False
        return bool(schema.get("minimum", value) <= value <= schema.get("maximum", value))

    return is_number


def _integer(schema: Schema) -> Check:
    is_number = _number(schema)
    return lambda value: isinstance(value, int) and is_number(value)


def _array(schema: Schema) -> Check:
    fewest = schema.get("minItems", 0)
    item_fits = compiled(schema.get("items", {}))

    def is_array(value: object) -> bool:
        return isinstance(value, list) and len(value) >= fewest and all(map(item_fits, value))

    return is_array


def _object(schema: Schema) -> Check:
    required = frozenset(schema.get("required", ()))
    properties = schema.get("properties", {})
    others = schema.get("additionalProperties")
    other_fits = compiled(others) if isinstance(others, dict) else _never
    checks: dict[str, Check] = {}  # of properties that were given: a run calls few of its tools

    def is_object(value: object) -> bool:
        if not isinstance(value, dict) or not value.keys() >= required:
            return False
        for name, item in value.items():
            fits = checks.get(name)
            if fits is None:
                fits = other_fits
                if name in properties:
                    fits = checks[name] = compiled(properties[name])
            if not fits(item):
                return False
        return True

    return is_object


_KINDS: Mapping[str, Callable[[Schema], Check]] = {
    "null": _null,
    "string": _string,
    "boolean": _boolean,
    "number": _number,
    "integer": _integer,
    "array": _array,
    "object": _object,
}
