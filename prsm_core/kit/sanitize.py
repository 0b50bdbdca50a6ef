"""What a provider says, made fit to keep: text that can be encoded, numbers that can be added.

A vendor's JSON may hold half a surrogate pair, NaN, or a count with thirty digits. The ledger can
hold none of these, and a step that cannot be written ends the whole run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any, TypeVar

from prsm_core.domain.turns import UsageReported
from prsm_core.domain.usage import TokenUsage

T = TypeVar("T")

MAX_COUNT = 2**40  # tokens of one report; the sums stay far below what the ledger can hold
MAX_DEPTH = 64  # of nested values; what writes them recurses
CUT = "… [cut by prsm: nested too deep]"


def sanitize(value: T) -> T:
    """Return an event, a request or JSON values with whatever cannot be kept replaced.

    Half a surrogate pair becomes a replacement character, a number that is none becomes None,
    which means unknown, and what is no JSON its type's name. What is fit already is returned as it
    is.
    """
    kept: T = _sanitized(value, 0)
    return kept


def _sanitized(value: Any, depth: int) -> Any:
    if isinstance(value, Enum):
        return value
    if isinstance(value, str):
        return _text(value)
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if is_dataclass(value) and not isinstance(value, type):
        return _record(value, depth)
    if isinstance(value, Mapping | list | tuple) and depth >= MAX_DEPTH:
        return CUT
    if isinstance(value, Mapping):
        return {_key(key): _sanitized(inner, depth + 1) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        items = [_sanitized(inner, depth + 1) for inner in value]
        return items if isinstance(value, list) else tuple(items)
    return value if isinstance(value, frozenset) else f"[a {type(value).__name__}]"


def _key(key: Any) -> Any:
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


def _record(record: Any, depth: int) -> Any:
    kept = {f.name: _sanitized(getattr(record, f.name), depth) for f in fields(record)}
    if isinstance(record, TokenUsage):
        kept = {name: _count(count) for name, count in kept.items()}
    elif isinstance(record, UsageReported):
        kept["cost_usd"] = None if (record.cost_usd or 0.0) < 0 else kept["cost_usd"]
        kept |= {name: _count(kept[name]) for name in ("context_used", "context_window")}
    changed = {name: new for name, new in kept.items() if new is not getattr(record, name)}
    return replace(record, **changed) if changed else record


def _count(count: int | None) -> int | None:
    return count if count is not None and 0 <= count <= MAX_COUNT else None
