"""Messages of a vendor in which one value is odd: none may break its reader."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

ODD: tuple[Any, ...] = (
    *(None, True, 0, -1, 2**70, 1.5, math.nan, "", "x", "\ud800"),
    *([], [None], [7], ["x"], [[]], [{}], {}, {"x": None}, {"type": []}, {"id": {}, "type": {}}),
)


def with_odd_values(message: Any) -> Iterator[Any]:
    """Yield the JSON message with each of its values, however deep, replaced by odd ones."""
    yield from ODD
    if isinstance(message, dict):
        parts = list(message.items())
    elif isinstance(message, list):
        parts = list(enumerate(message))
    else:
        return
    for place, value in parts:
        for odd in with_odd_values(value):
            whole = message.copy()
            whole[place] = odd
            yield whole
