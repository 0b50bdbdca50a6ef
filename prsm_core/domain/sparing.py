"""Mappings and sequences, many and mostly empty, that take no room until used.

Begin with `NOTHING` or `()` and keep what these functions return.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

K = TypeVar("K")
V = TypeVar("V")

NOTHING: Mapping[Any, Any] = MappingProxyType({})  # one for all: an empty dict takes 64 bytes


def put(held: Mapping[K, V], key: K, value: V) -> Mapping[K, V]:
    """Return a mapping with this entry: the same one, unless it was empty and nobody's own."""
    if not isinstance(held, dict):
        return {**held, key: value}
    held[key] = value
    return held


def drop(held: Mapping[K, V], key: K) -> V | None:
    """Take an entry out and return it; None where there is none."""
    return held.pop(key, None) if isinstance(held, dict) else None


def push(held: Sequence[V], value: V) -> Sequence[V]:
    """Return a sequence with one more at its end: the same one, unless it was nobody's own."""
    if not isinstance(held, list):
        return [*held, value] if held else [value]
    held.append(value)
    return held
