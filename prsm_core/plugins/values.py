"""What values of third-party code must be: tables of fields, each with a test and its words.

    STATUS = {ProviderStatus: {"available": FLAG, "version": maybe(TEXT)}}
    problem = first_problem(value, STATUS)      # None, or "a str, which is no ProviderStatus"

A table is by exact class; fields that a subclass adds are not looked at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from prsm_core.domain.record import Record


class Kind(Record, frozen=True):
    """What a value must be: in words, and as a test."""

    words: str
    fits: Callable[[Any], bool]


Fields = Mapping[str, Kind]
Table = Mapping[type, Fields]

TEXT = Kind("text", lambda value: isinstance(value, str))
FLAG = Kind("True or False", lambda value: isinstance(value, bool))
WHOLE = Kind("a whole number", lambda value: isinstance(value, int) and not isinstance(value, bool))
NUMBER = Kind(
    "a number", lambda value: isinstance(value, int | float) and not isinstance(value, bool)
)
POSITIVE = Kind(
    "a number above 0", lambda value: NUMBER.fits(value) and value > 0 and math.isfinite(value)
)
COUNT = Kind("a whole number above 0", lambda value: WHOLE.fits(value) and value > 0)
MAPPING = Kind("a mapping", lambda value: isinstance(value, Mapping))


def maybe(kind: Kind) -> Kind:
    """Return what also None is."""
    return Kind(f"{kind.words} or None", lambda value: value is None or kind.fits(value))


def many(kind: Kind) -> Kind:
    """Return a tuple, list or set of what is of a kind."""
    return Kind(
        f"a tuple of values that are {kind.words}",
        lambda value: (
            isinstance(value, tuple | list | frozenset | set) and all(map(kind.fits, value))
        ),
    )


def one_of(*words: str) -> Kind:
    """Return one of these words."""
    return Kind(
        f"one of {', '.join(words)}", lambda value: isinstance(value, str) and value in words
    )


def instance(cls: type) -> Kind:
    """Return an instance of a class."""
    return Kind(f"a {cls.__name__}", lambda value: isinstance(value, cls))


TEXTS = many(TEXT)


def first_problem(value: object, table: Table) -> str | None:
    """Return what is wrong with a value, for people; None if nothing is."""
    fields = table.get(type(value))
    if fields is None:
        fields = next((fields for cls, fields in table.items() if isinstance(value, cls)), None)
    if fields is None:
        names = " or ".join(cls.__name__ for cls in table)
        return f"a {type(value).__name__}, which is no {names}"
    for name, kind in fields.items():
        inner = getattr(value, name, _MISSING)
        if not kind.fits(inner):
            what = "missing" if inner is _MISSING else f"a {type(inner).__name__}: {_short(inner)}"
            return f"a {type(value).__name__} whose {name} is {what}, not {kind.words}"
    return None


def _short(value: object) -> str:
    """Return a value as it is written, cut; the code that writes it may itself be broken."""
    if not isinstance(value, str | int | float | bool | None):
        return "…"
    text = repr(value)
    return text if len(text) <= SHOWN else text[:SHOWN] + "…"


SHOWN = 60  # characters of a value that is told
_MISSING = object()
