"""Counts the functions that something calls: what it costs, without a clock."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def calls_of(act: Callable[[], object]) -> int:
    """Return how many functions, Python's and C's, an act calls."""
    count = -1  # of what ends the counting

    def seen(_frame: object, event: str, _arg: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    sys.setprofile(seen)
    try:
        act()
    finally:
        sys.setprofile(None)
    return count
