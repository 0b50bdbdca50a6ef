"""What a vendor's program writes, read with care: any of it may be missing or odd."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

MAX_COUNT = 2**40  # tokens; more is nonsense, and would poison every sum
_MOST_DIGITS = 100  # of a number that is written

# One for all lines: building it takes its time. A control character spoils no message.
_DECODER = json.JSONDecoder(strict=False)


def read_object(line: bytes) -> dict[str, Any]:
    """Return the JSON object of a line, wrong bytes replaced; raise ValueError for none."""
    try:
        value = _DECODER.decode(line.decode(errors="replace").removeprefix("\ufeff"))
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error
    if not isinstance(value, dict):
        raise ValueError("it is no object")  # noqa: TRY004 - it is the line that is wrong
    return value


def as_object(value: object) -> Mapping[str, Any]:
    """Return a JSON object, an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def as_objects(value: object) -> list[Mapping[str, Any]]:
    """Return the objects of a JSON list; none for anything else."""
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def token_count(value: object) -> int | None:
    """Return a number of tokens, None for anything that can be none."""
    return value if type(value) is int and 0 <= value <= MAX_COUNT else None


def whole_number(text: str) -> int | None:
    """Return the number written in at most a hundred digits; None for anything else."""
    is_short = 0 < len(text) <= _MOST_DIGITS
    return int(text) if is_short and text.isascii() and text.isdigit() else None
