"""How much of a terminal's row a text takes, and how it is cut into rows that fit."""

from __future__ import annotations

import os
import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TextIO

_STYLE = re.compile(r"(\x1b\[[0-9;]*m)")  # bold and the like: the only sequences that we write
_WIDE = frozenset("WF")
_NOTHING = frozenset({"Mn", "Me", "Cf"})
_EMOJI = "\ufe0f"  # some terminals draw what is before it two cells wide
INDENT = "    "  # of what goes on in a further row, so that it never looks like a line of ours
_TAB = 4
_LEAST = 12  # cells of a row: a narrower terminal wraps by itself


def columns_of(stream: TextIO) -> int | None:
    """Return the columns of the terminal that a stream is, None where it is none."""
    if not stream.isatty():
        return None
    try:
        return os.get_terminal_size(stream.fileno()).columns or None
    except OSError:  # held in memory, or just gone
        return None


def char_width(char: str) -> int:
    """Return the cells that a character takes, rather too many than too few."""
    if char == _EMOJI:
        return 1
    if unicodedata.category(char) in _NOTHING:
        return 0
    return 2 if unicodedata.east_asian_width(char) in _WIDE else 1


def text_width(text: str) -> int:
    """Return the cells that a line takes, styles left aside."""
    if text.isascii() and "\x1b" not in text:
        return len(text)
    return sum(map(char_width, _STYLE.sub("", text)))


def rows_of(line: str, width: int) -> list[str]:
    """Return a line as rows of at most `width` cells, broken behind spaces where there are some.

    Nothing is left out: without the indent of further rows they say exactly what the line does.
    """
    line = line.expandtabs(_TAB)
    width = max(width, _LEAST)
    if text_width(line) <= width:
        return [line]
    rows = _Rows(width)
    for part in _STYLE.split(line):
        if part.startswith("\x1b"):
            rows.style(part)
        else:
            for char in part:
                rows.put(char)
    return rows.done()


def cut(line: str, width: int) -> str:
    """Return one row: a line whose end is left out where it takes more than `width` cells."""
    if text_width(line) <= width:
        return line
    kept, used = "", 0
    for char in _STYLE.sub("", line):
        used += char_width(char)
        if used >= width:
            break
        kept += char
    return kept + "…"


def tail(line: str, width: int) -> str:
    """Return one row: the end of a line without styles that takes more than `width` cells."""
    return cut(line[::-1], width)[::-1]


class _Rows:
    def __init__(self, width: int) -> None:
        self._width = width
        self._rows: list[str] = []
        self._row = ""
        self._cells = 0
        self._break = 0  # where the row may end: behind its last space

    def style(self, sequence: str) -> None:
        self._row += sequence

    def put(self, char: str) -> None:
        cells = char_width(char)
        if self._cells + cells > self._width:
            self._end_row()
        self._row += char
        self._cells += cells
        if char == " " and self._row.strip(" "):
            self._break = len(self._row)

    def done(self) -> list[str]:
        return [*self._rows, self._row]

    def _end_row(self) -> None:
        at = self._break if self._break > len(self._row) // 2 else len(self._row)
        self._rows.append(self._row[:at])
        self._row = INDENT + self._row[at:]
        self._cells = text_width(self._row)
        self._break = 0
