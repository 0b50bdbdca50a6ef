"""Makes what a provider says fit to keep: text that can be encoded, numbers that can be added.

A vendor's JSON may hold half a surrogate pair, NaN, or a count with thirty digits. A step with one
of these could not be written, which ends the run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import structs

from prsm_core.domain.record import Record
from prsm_core.domain.turns import UsageReported
from prsm_core.domain.usage import TokenUsage

if TYPE_CHECKING:
    from collections.abc import Iterable

T = TypeVar("T")

MAX_COUNT = 2**40  # tokens of one report; the sums stay far below what the ledger can hold
MAX_DEPTH = 64  # of nested values; what writes them recurses
_FIT = frozenset({int, bool, type(None)})  # kinds of values that are always fit
_COUNTED = (TokenUsage, UsageReported)
UNFIT_CURE = "it has half of a surrogate pair: leave that out"
CUT = "… [cut by prsm: nested too deep]"


def sanitize(value: T) -> T:
    """Return an event, a request or JSON values with whatever cannot be kept replaced.

    Half a surrogate pair becomes a replacement character, a number that is none None, and what is
    no JSON the name of its type. What is fit is returned as it is.
    """
    if value is None or (isinstance(value, str) and type(value) is str and value.isascii()):
        return value  # names and ids, of every call
    kept: T = _sanitized(value, 0)
    return kept


def is_fit(text: str) -> bool:
    """Return whether a text can be kept: half a surrogate pair is no character."""
    return text.isascii() or _text(text) is text


def _sanitized(value: Any, depth: int) -> Any:
    kind = type(value)
    if kind is str and value.isascii():  # most of what is said
        return value
    if kind in _FIT:
        return value
    if kind is dict and depth < MAX_DEPTH:
        return _of_dict(value, depth + 1) if value else value
    if isinstance(value, Record):
        names = value.__struct_fields__
        return _record(value, names, depth) if names else value
    if kind is list and depth < MAX_DEPTH:
        return [_sanitized(inner, depth + 1) for inner in value]
    return _sanitized_other(value, depth)


def _of_dict(values: dict[Any, Any], depth: int) -> dict[Any, Any]:
    """Return a JSON object fit to keep; most of what it holds is, and is looked at right here."""
    fit = {}
    for key, inner in values.items():
        kind = type(inner)
        if not (inner.isascii() if kind is str else kind in _FIT):
            inner = _sanitized(inner, depth)
        fit[key if type(key) is str and key.isascii() else _key(key)] = inner
    return fit


def _sanitized_other(value: Any, depth: int) -> Any:
    if isinstance(value, Enum):
        return value
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping | list | tuple):
        return CUT if depth >= MAX_DEPTH else _of_many(value, depth + 1)
    if is_dataclass(value) and not isinstance(value, type):
        return _record(value, [f.name for f in fields(value)], depth)
    return value if isinstance(value, frozenset) else f"[a {type(value).__name__}]"


def _of_many(values: Any, depth: int) -> Any:
    if isinstance(values, Mapping):
        return {_key(key): _sanitized(inner, depth) for key, inner in values.items()}
    items = [_sanitized(inner, depth) for inner in values]
    return items if isinstance(values, list) else tuple(items)


def _key(key: Any) -> Any:
    if type(key) is str and key.isascii():
        return key
    if isinstance(key, str):
        return _text(key)
    return str(key) if type(key) in {bool, int, float} else f"[a {type(key).__name__}]"


def _text(text: str) -> str:
    if type(text) is not str:  # it may be anything but what it says
        text = str.__str__(text)
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _record(record: Any, names: Iterable[str], depth: int) -> Any:
    changed = {}
    for name in names:
        value = getattr(record, name)
        kept = _sanitized(value, depth)
        if kept is not value:
            changed[name] = kept
    if isinstance(record, _COUNTED):
        changed |= _odd_counts(record, changed)
    if not changed:
        return record
    changing = structs.replace if isinstance(record, Record) else replace
    return changing(record, **changed)


def _odd_counts(record: TokenUsage | UsageReported, changed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the counts and costs that nobody can have used, all of them as unknown."""
    names: tuple[str, ...] = ("context_used", "context_window")
    if isinstance(record, TokenUsage):
        names = record.__struct_fields__
    counts = {name: changed.get(name, getattr(record, name)) for name in names}
    odd = {
        name: None
        for name, count in counts.items()
        if count is not None and not 0 <= count <= MAX_COUNT
    }
    if isinstance(record, UsageReported) and (record.cost_usd or 0.0) < 0:
        odd["cost_usd"] = None
    return odd
