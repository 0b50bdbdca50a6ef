"""The contract with plugins and scripts, as data: what may grow and must not shrink.

`python tests/contract.py` writes it to tests/data/contract.json.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import json
import types
import typing
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import prsm_testing
from msgspec import NODEFAULT, Struct

import prsm_core
from prsm_core import PrsmError, executors, files, hookspecs, kit, policies
from prsm_core.domain.events import EVENT_FIELDS

if TYPE_CHECKING:
    from collections.abc import Iterator

GOLDEN = Path(__file__).parent / "data" / "contract.json"


def hooks() -> dict[str, list[str]]:
    """Return the arguments of every hook by its name."""
    return {
        name: list(inspect.signature(value).parameters)
        for name, value in sorted(vars(hookspecs).items())
        if hasattr(value, "prsm_spec")
    }


def defaults_of(record: Any) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a record or a dataclass with their defaults, or NODEFAULT."""
    if dataclasses.is_dataclass(record):
        for field in dataclasses.fields(record):
            if field.default_factory is not dataclasses.MISSING:
                yield field.name, field.default_factory()
            else:
                has_none = field.default is dataclasses.MISSING
                yield field.name, NODEFAULT if has_none else field.default
        return
    names, defaults = record.__struct_fields__, record.__struct_defaults__
    yield from zip(names[: len(names) - len(defaults)], repeat(NODEFAULT), strict=False)
    for name, default in zip(names[len(names) - len(defaults) :], defaults, strict=True):
        yield name, default.factory() if hasattr(default, "factory") else default


def _fields(record: type) -> str:
    """Return the fields; a trailing `?` marks one that has a default."""
    return ", ".join(
        name + ("" if default is NODEFAULT else "?") for name, default in defaults_of(record)
    )


def _methods(cls: type) -> dict[str, str]:
    """Return the signature of every public method, and `property` for a property.

    Tests are left out: a contract may ask for more, and it may ask it otherwise.
    """
    methods = {}
    for name, value in sorted(vars(cls).items()):
        function = getattr(value, "__func__", value)  # of a classmethod
        if name.startswith(("_", "test_")):
            continue
        if isinstance(value, property):
            methods[name] = "property"
        elif inspect.isfunction(function):
            signature = str(inspect.signature(function)).replace("'", "")
            methods[name] = ("async " if inspect.iscoroutinefunction(function) else "") + signature
    return methods


def _attributes(cls: type) -> str:
    """Return the attributes that are declared; a trailing `?` marks one that has a default."""
    declared = vars(cls).get("__annotations__", {})
    names = [name for name in declared if not name.startswith("_")]
    return ", ".join(name + ("?" if hasattr(cls, name) else "") for name in names)


def _shape(value: Any) -> Any:
    """Return what of a public name others rely on."""
    if isinstance(value, types.UnionType):
        return " | ".join(member.__name__ for member in typing.get_args(value))
    if inspect.isfunction(value):
        return _methods(type("", (), {value.__name__: value}))[value.__name__]
    if not inspect.isclass(value):
        return str(type(value).__name__)
    if issubclass(value, enum.Enum):
        return ", ".join(f"{member.name}={member.value}" for member in value)
    if issubclass(value, PrsmError):
        return f"error({', '.join(base.__name__ for base in value.__bases__)}) {value.code}"
    shape: dict[str, Any] = {}
    if dataclasses.is_dataclass(value) or issubclass(value, Struct):
        shape["fields"] = _fields(value)
    elif attributes := _attributes(value):
        shape["attributes"] = attributes
    if methods := _methods(value):
        shape["methods"] = methods
    if abstract := getattr(value, "__abstractmethods__", None):
        shape["abstract"] = ", ".join(sorted(abstract))
    return shape


def describe() -> dict[str, Any]:
    """Return the contract of the sources as they are now."""
    return {
        "hooks": hooks(),
        "names": {name: _shape(getattr(prsm_core, name)) for name in dir(prsm_core)},
        "files": {name: _shape(getattr(files, name)) for name in dir(files)},
        "kit": {name: _shape(getattr(kit, name)) for name in dir(kit)},
        "policies": {name: _shape(getattr(policies, name)) for name in dir(policies)},
        "executors": {name: _shape(getattr(executors, name)) for name in executors.__all__},
        "testing": {name: _shape(getattr(prsm_testing, name)) for name in dir(prsm_testing)},
        "events": {name: ", ".join(fields) for name, fields in sorted(EVENT_FIELDS.items())},
    }


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps(describe(), indent=1) + "\n", encoding="utf-8")
