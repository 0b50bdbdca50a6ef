"""Text as lines of a width, in cells of a terminal."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from rich.cells import cell_len, chop_cells

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_PARTS = re.compile(r"\s+|\S+")
_TAB = 8


@lru_cache(maxsize=8192)
def wrap(line: str, width: int) -> Sequence[str]:
    """Return one line as rows of at most `width` cells, broken at blanks where there are some."""
    line = line.expandtabs(_TAB)
    if (line.isascii() and len(line) <= width) or cell_len(line) <= width:
        return (line,)
    return tuple(_rows(line, max(2, width)))


def wrap_all(text: str, width: int) -> Sequence[str]:
    """Return a text of many lines as rows."""
    return [row for line in text.split("\n") for row in wrap(line, width)]


def hanging(line: str, width: int) -> Sequence[str]:
    """Return a line as rows: those that it goes on in begin further right, as no line does.

    So a text that is broken at the edge cannot look like another line.
    """
    inner = line.lstrip(" ")
    indent = " " * min(len(line) - len(inner), max(0, width - 20))
    first, *rest = wrap_all(inner, max(10, width - len(indent) - 2)) or [""]
    return [indent + first, *(f"{indent}  {row}" for row in rest)]


def cut(text: str, width: int) -> str:
    """Return the beginning of a line that fits, with a sign where something is left out."""
    if cell_len(text) <= width:
        return text
    if width <= 1:
        return "…"[:width]
    return chop_cells(text, width - 1)[0] + "…"


def _rows(line: str, width: int) -> Iterator[str]:
    row, used = "", 0
    for part in _PARTS.findall(line):
        size = cell_len(part)
        if used + size <= width:
            row, used = row + part, used + size
            continue
        if part.isspace():  # a row does not begin with the blanks that it was broken at
            yield row
            row, used = "", 0
            continue
        if row.strip():
            yield row.rstrip()
            row, used = "", 0
        *full, row = chop_cells(row + part, width)
        yield from full
        used = cell_len(row)
    if row:
        yield row
