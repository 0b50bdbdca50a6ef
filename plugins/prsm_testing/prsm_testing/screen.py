"""What a terminal shows: the bytes that were written to it, as an emulator draws them."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Screen:
    """What a person sees at one moment; rows and columns are counted from 0."""

    lines: tuple[str, ...]  # one for each row, without the blanks at its end
    columns: int
    cursor: tuple[int, int]  # row, column
    has_cursor: bool  # it is visible

    @property
    def text(self) -> str:
        """All of it, row by row."""
        return "\n".join(self.lines)


class Emulator:
    """Draws what is written; its rows and columns may change in between."""

    def __init__(self, rows: int, columns: int) -> None:
        """Begin with an empty screen."""
        # Few tests draw a screen, and the others must not pay for its import.
        pyte: Any = importlib.import_module("pyte")
        self._screen: Any = pyte.Screen(columns, rows)
        self._stream: Any = pyte.ByteStream(self._screen)

    def write(self, data: bytes) -> None:
        """Draw what a program writes."""
        self._stream.feed(data)

    def resize(self, rows: int, columns: int) -> None:
        """Change the size; what was drawn is lost, as terminals differ in what they keep of it."""
        self._screen.resize(rows, columns)
        self._screen.erase_in_display(2)

    def show(self) -> Screen:
        """Return what is to be seen now."""
        screen = self._screen
        return Screen(
            lines=tuple(line.rstrip() for line in screen.display),
            columns=screen.columns,
            cursor=(screen.cursor.y, screen.cursor.x),
            has_cursor=not screen.cursor.hidden,
        )
