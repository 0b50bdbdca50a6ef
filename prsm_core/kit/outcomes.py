"""Answers to calls that are too long for models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from prsm_core.domain.record import Record
from prsm_core.domain.tools import ToolOutcome, encode_data
from prsm_core.errors import OrchestrationError

CUT = "… [cut by prsm]"


class _Shape(Record, frozen=True):
    """How many characters of each text are kept, and how many items of each list."""

    text: int
    items: int


_MANY = 1 << 20
# From what loses the least: only long texts first, then long lists as well.
_SHAPES = (
    *(_Shape(1 << power, _MANY) for power in range(16, 7, -1)),
    *(_Shape(256, 1 << power) for power in range(10, -1, -1)),
    *(_Shape(32, 1 << power) for power in range(5, -1, -1)),
)


def within(outcome: ToolOutcome, limit: int) -> ToolOutcome:
    """Return an answer cut to so many characters: long texts, then long lists, else an error."""
    if len(outcome.text) <= limit:
        return outcome
    whole = outcome.data if isinstance(outcome.data, Mapping) else {"text": outcome.text}
    longest = _Shape(*_longest(whole))
    for shape in _SHAPES:
        if shape.text >= longest.text and shape.items >= longest.items:
            continue  # it cuts nothing
        data = {**_cut(whole, shape), "cut": f"this answer was cut at {limit} characters"}
        text = encode_data(data)
        if len(text) <= limit:
            return replace(outcome, text=text, data=data)
    hint = "ask for less of it"
    return ToolOutcome.failed(
        OrchestrationError("the answer is too long", hint=hint, code="too_long")
    )


def _longest(value: Any) -> tuple[int, int]:
    text = items = 0
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, str):
            text = max(text, len(one))
        elif isinstance(one, Mapping):
            left.extend(one.values())
        elif isinstance(one, list | tuple):
            items = max(items, len(one))
            left.extend(one)
    return text, items


def _cut(value: Any, shape: _Shape) -> Any:
    if isinstance(value, str):
        return value if len(value) <= shape.text else value[: shape.text] + CUT
    if isinstance(value, Mapping):
        return {name: _cut(one, shape) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_cut(one, shape) for one in value[: shape.items]]
    return value
