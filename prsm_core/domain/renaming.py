"""Other ids in the place of those that a value holds: in its fields, and in the texts of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar, cast

from msgspec import Struct, structs

T = TypeVar("T")

# An id in a text, such as the answer of a tool: a model that was told it may use it again.
_ID = re.compile(r"[0-9A-Za-z]{26,32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def renamed(value: T, names: Mapping[str, str]) -> T:
    """Return a value with the `names` of ids in their place; JSON values and records are known."""
    return cast("T", _renamed(value, names)) if names else value


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    if type(value) is str:
        found = names.get(value)
        return _ID.sub(lambda id_: names.get(id_[0], id_[0]), value) if found is None else found
    if isinstance(value, Mapping):
        return {_renamed(key, names): _renamed(each, names) for key, each in value.items()}
    if type(value) is list or type(value) is tuple:
        return type(value)(_renamed(each, names) for each in value)
    if isinstance(value, Struct):
        fields = {name: _renamed(getattr(value, name), names) for name in value.__struct_fields__}
        return structs.replace(value, **fields)
    return value
