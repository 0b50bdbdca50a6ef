"""A pattern that is found in every text but some, without looking ahead: Codex's has no way to."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_ANYTHING = r"[\s\S]"


def all_but(names: Iterable[str]) -> str:
    """Return a regular expression that is found in every text that is none of these names.

    It means the same to Python and to Codex, since no name has a line break. Each way to leave the
    names is one of its branches: the text ends too soon, goes on with another character, or goes on
    behind a whole name.
    """
    return f"^{_leaving(sorted(set(names)))}"


def _leaving(rests: list[str]) -> str:
    """Return a pattern of what follows where only these, which are in order, would be names."""
    ends = [] if "" in rests else ["$"]
    first = sorted({rest[0] for rest in rests if rest})
    other = f"[^{''.join(map(re.escape, first))}]" if first else _ANYTHING
    longer = [
        re.escape(char) + _leaving([rest[1:] for rest in rests if rest[:1] == char])
        for char in first
    ]
    return f"(?:{'|'.join([*ends, other, *longer])})"
