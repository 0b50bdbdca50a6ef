"""Plain tables: aligned columns, no borders, no colours, as wide as there is room."""

from __future__ import annotations

import re
from itertools import zip_longest
from typing import TYPE_CHECKING

from prsm_core.kit.text import escape_exact
from prsm_core.terminal.cells import text_width

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST_LINES = 2  # of a row, on average: more are hard to read
LONGEST = 16  # characters: a longer word is broken where there is no room for it
_GAP, _NARROW = "  ", " "
_PIECE = re.compile(r"\s*[^\s/_-]+[/_-]?|\s+|[/_-]")


def format_table(
    headers: Sequence[str],
    rows: Sequence[Sequence[str | None]],
    *,
    width: int | None = None,
    spare: Sequence[str] = (),
) -> str:
    """Return lines with every column as wide as its widest cell; None is shown as "-".

    A table wider than `width` gets cells of several lines and narrower gaps. If that is not enough,
    or rows have more than two lines on average, `spare` columns are left out one by one.
    """
    table = _format(headers, rows, width)
    for name in spare if width is not None else ():
        lines = table.splitlines()
        is_narrow = max(map(text_width, lines)) <= (width or 0)
        if is_narrow and len(lines) <= _MOST_LINES * (len(rows) + 1):
            break
        place = headers.index(name)
        headers = [*headers[:place], *headers[place + 1 :]]
        rows = [[*row[:place], *row[place + 1 :]] for row in rows]
        table = _format(headers, rows, width)
    return table


def _format(headers: Sequence[str], rows: Sequence[Sequence[str | None]], width: int | None) -> str:
    cells = [
        ["-" if value is None else escape_exact(value) for value in row] for row in (headers, *rows)
    ]
    widths, gap = [max(map(text_width, column)) for column in zip(*cells, strict=True)], _GAP
    if width is not None:
        words = [max(map(_longest_word, column)) for column in zip(*cells, strict=True)]
        between, spare = len(widths) - 1, width - sum(words)
        gap = _NARROW if between <= spare < len(_GAP) * between else _GAP
        widths = _fitted(widths, words, width - len(gap) * between)
    return "\n".join(line for row in cells for line in _lines(row, widths, gap))


def _longest_word(cell: str) -> int:
    return min(LONGEST, max(map(len, _PIECE.findall(cell)), default=0))


def _fitted(widths: Sequence[int], words: Sequence[int], limit: int) -> list[int]:
    """Return narrower columns, each as wide as its words; the same where that is not enough."""
    fitted = list(widths)
    excess = sum(widths) - limit
    while excess > 0:
        loose = [n for n, width in enumerate(fitted) if width > words[n]]
        if not loose:
            return list(widths)
        widest = max(loose, key=fitted.__getitem__)
        taken = min(excess, fitted[widest] - max(words[widest], fitted[widest] // 2))
        fitted[widest] -= taken
        excess -= taken
    return fitted


def _lines(row: Sequence[str], widths: Sequence[int], gap: str) -> list[str]:
    wrapped = [_wrapped(cell, width) for cell, width in zip(row, widths, strict=True)]
    return [
        gap.join(_padded(part, width) for part, width in zip(parts, widths, strict=True)).rstrip()
        for parts in zip_longest(*wrapped, fillvalue="")
    ]


def _padded(part: str, width: int) -> str:
    return part + " " * max(0, width - text_width(part))


def _wrapped(cell: str, width: int) -> list[str]:
    """Return the lines of a cell, broken between words, after one of /_- or else anywhere."""
    lines = [""]
    for piece in _PIECE.findall(cell):
        if lines[-1] and len(lines[-1]) + len(piece) > width:
            lines.append(piece.lstrip())
        else:
            lines[-1] += piece
        while len(lines[-1]) > width:
            lines[-1:] = [lines[-1][:width], lines[-1][width:]]
    return lines
