"""Structs at an edge: their JSON Schema, and what is wrong with a value."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from enum import EnumType
from functools import cache
from itertools import chain, count, repeat
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import structs

from prsm_core.domain.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterator

    Schema = Mapping[str, Any]
    Path = tuple[str | int, ...]

Read = TypeVar("Read", bound=msgspec.Struct)

_MOST_SHOWN = 80  # characters of a value that is wrong
_PLACE = re.compile(r" - at (?:`key` in )?`\$[^`]*`$")
EXPECTED = re.compile(r"Expected `(?P<kind>.+?)`(?P<rule>.*?)(?:, got `.+`)?$", re.DOTALL)
# As JSON Schema calls them: that is what models have read of their arguments.
_NAMES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}
_PYTHON_NAME = re.compile(r"\b(str|int|float|bool)\b")
_UNIONS = {Union, UnionType}
_PATTERN_PROBLEM = "patternErrorMessage"  # editors know it


class Parsed:
    """A value that its class makes of JSON, by a method `parse(value)` and a `json_schema`.

    `parse` raises ValueError as `Fault` reads it.
    """


def matching(pattern: str, problem: str) -> msgspec.Meta:
    """Annotate text that must match a pattern, and else has a problem."""
    return msgspec.Meta(pattern=pattern, extra_json_schema={_PATTERN_PROBLEM: problem})


class Fault(Record, frozen=True, kw_only=True):
    """One thing that is wrong with a value.

    A rule of a struct or a class is a ValueError: what is wrong, then the way to it, as in
    `ValueError("must be a branch that exists", "branches", 2)`.

    Attributes:
        path: The way to it, with the key if that is missing, unknown or wrong.
        kind: "name" is a wrong key; "value" is told in msgspec's words, "rule" in its own.
        allowed: The possible keys or values, if known.
    """

    path: Path
    kind: Literal["missing", "unknown", "name", "value", "rule"]
    text: str = ""
    allowed: tuple[Any, ...] = ()
    value: Any = None


def read(kind: type[Read], value: object) -> Read:
    """Return a value of JSON as a struct. Raises msgspec.ValidationError."""
    return msgspec.convert(value, kind, dec_hook=_parsed)


def fits(kind: type[msgspec.Struct], value: object) -> bool:
    """Return whether a value of JSON can be read as a struct."""
    return _error_of(kind, value) is None


def find_faults(hint: Any, value: Any, *, path: Path = (), closed: bool = False) -> Iterator[Fault]:
    """Yield all faults of a value at a path; if `closed`, also keys that a struct ignores."""
    error = _error_of(hint, value)
    if error is None and not closed:
        return
    container = None if value is None else container_of(hint, value)
    faults = [] if container is None else [*_faults_inside(container, value, path, closed)]
    yield from faults
    if error is not None and not faults:
        yield _fault_of(error, hint, value, path)


def find_fault(kind: type[msgspec.Struct], value: object) -> tuple[str, str] | None:
    """Return where a value does not fit, as a dotted path, and why; None when it fits."""
    fault = next(find_faults(kind, value), None)
    if fault is None:
        return None
    path = fault.path
    if fault.kind in {"missing", "unknown"}:
        path, why = path[:-1], f"`{path[-1]}` is {fault.kind}"
    elif fault.kind == "name":
        path, why = path[:-1], f"a name in it: {_in_words(fault.text)}"
    elif fault.allowed:
        shown = ", ".join(map(_shown, fault.allowed))
        why = f"expected one of {shown}, got {_shown(fault.value)}"
    elif EXPECTED.match(fault.text):
        why = f"{_in_words(fault.text)}, got {_shown(fault.value)}"
    else:
        why = fault.text
    return ".".join(map(str, path)), why


def members(hint: Any) -> tuple[Any, ...]:
    """Return the types that a value may be of, without what is annotated."""
    if get_origin(hint) is Annotated:
        return members(get_args(hint)[0])
    if get_origin(hint) in _UNIONS:
        return tuple(member for option in get_args(hint) for member in members(option))
    return () if hint is msgspec.UnsetType else (hint,)


def container_of(hint: Any, value: object) -> Any:
    """Return the struct, mapping or list to read a value as, if any; None is an empty mapping."""
    for member in members(hint):
        origin = get_origin(member) or member
        if not isinstance(origin, type) or issubclass(origin, Parsed | str | bytes):
            continue
        is_mapping = issubclass(origin, msgspec.Struct | Mapping)
        wanted = Mapping | None if is_mapping else list | tuple
        if issubclass(origin, msgspec.Struct | Collection) and isinstance(value, wanted):
            return member
    return None


def parts_of(container: Any, value: Any) -> Iterator[tuple[str | int, Any, Any]]:
    """Yield key, type and value of each part of a container, but not keys unknown to a struct."""
    kinds = get_args(container) or (Any, Any)
    if isinstance(container, msgspec.StructMeta):
        known = fields_of(container)
        yield from ((key, known[key].type, item) for key, item in value.items() if key in known)
    elif isinstance(value, Mapping):
        yield from ((key, kinds[1], item) for key, item in value.items())
    else:
        is_fixed = get_origin(container) is tuple and kinds[-1] is not Ellipsis
        yield from zip(count(), kinds if is_fixed else repeat(kinds[0]), value)


def choices_of(hint: Any) -> tuple[Any, ...]:
    """Return the values of a type that has only some, in the order of its JSON Schema."""
    kinds = [kind for kind in members(hint) if kind is not type(None)]
    choices = [
        get_args(kind) if get_origin(kind) is Literal else [each.value for each in kind]
        for kind in kinds
        if get_origin(kind) is Literal or isinstance(kind, EnumType)
    ]
    return tuple(sorted(chain(*choices), key=str)) if len(choices) == len(kinds) else ()


def extra_of(hint: Any, word: str) -> Any:
    """Return what a type's `extra_json_schema` says by a word, or that of one that it may be."""
    if get_origin(hint) is not Annotated and get_origin(hint) not in _UNIONS:
        return None
    extras = ((getattr(each, "extra_json_schema", None) or {}).get(word) for each in get_args(hint))
    inner = (extra_of(each, word) for each in get_args(hint))
    return next(filter(None, (*extras, *inner)), None)


@cache
def fields_of(kind: type[msgspec.Struct]) -> Mapping[str, structs.FieldInfo]:
    """Return the fields of a struct by their keys in JSON."""
    return {field.encode_name: field for field in structs.fields(kind)}


@cache
def json_schema(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the JSON Schema of a struct, with those of its parts inside.

    It has no titles, and only the descriptions of annotated fields. Raises TypeError for a struct
    that has none, such as one that holds itself.
    """
    schema, parts = schema_of(kind, "{name}")
    return _inlined(schema, parts, ())


def schema_of(kind: type[msgspec.Struct], template: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the JSON Schema of a struct, and those that it refers to by name."""
    (schema,), parts = msgspec.json.schema_components(
        [kind], schema_hook=_schema_of_parsed, ref_template=template
    )
    return schema, parts


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


def _parsed(kind: Any, value: Any) -> Any:
    return kind.parse(value)


def _schema_of_parsed(kind: Any) -> Any:
    return dict(kind.json_schema)


def _error_of(hint: Any, value: object) -> msgspec.ValidationError | None:
    try:
        msgspec.convert(value, hint, dec_hook=_parsed)
    except msgspec.ValidationError as error:
        if isinstance(error.__cause__, TypeError):
            raise error.__cause__ from None  # a fault of the struct's own code
        return error
    return None


def _faults_inside(container: Any, value: Any, path: Path, closed: bool) -> Iterator[Fault]:
    if isinstance(container, msgspec.StructMeta):
        known = fields_of(container)
        is_closed = closed or container.__struct_config__.forbid_unknown_fields
        for key in (key for key in value if is_closed and key not in known):
            yield Fault(path=(*path, key), kind="unknown", allowed=tuple(known))
        for key in (key for key, field in known.items() if field.required and key not in value):
            yield Fault(path=(*path, key), kind="missing")
    elif isinstance(value, Mapping):
        names = (get_args(container) or (Any,))[0]
        for key in value:
            for fault in find_faults(names, key, path=(*path, key)):
                yield fault if fault.kind == "rule" else structs.replace(fault, kind="name")
    for part, hint, item in parts_of(container, value):
        yield from find_faults(hint, item, path=(*path, part), closed=closed)


def _fault_of(error: msgspec.ValidationError, hint: Any, value: Any, path: Path) -> Fault:
    """Return what msgspec tells of a value that has no parts, or whose parts are all right."""
    cause, text = error.__cause__, _PLACE.sub("", str(error))
    if cause is None and " matching regex " in text and extra_of(hint, _PATTERN_PROBLEM):
        cause = ValueError(extra_of(hint, _PATTERN_PROBLEM))
    if cause is not None:
        rule, *below = cause.args if type(cause) is ValueError else (cause,)
        return Fault(path=(*path, *below), kind="rule", text=str(rule), value=value)
    return Fault(path=path, kind="value", text=text, allowed=choices_of(hint), value=value)


def _in_words(text: str) -> str:
    expected = EXPECTED.match(text)
    if expected is None:
        return text
    kind = _PYTHON_NAME.sub(lambda name: _NAMES[name[0]], expected["kind"])
    return f"expected {kind}{expected['rule'].removesuffix('.0')}"


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"
