"""A page of lines about what a session has around it, and the pages that were made last."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

HEAD, PLAIN, DIM, WARNING = "head", "plain", "dim", "warning"


@dataclass(frozen=True, slots=True)
class BoardLine:
    """A line: its text, how it looks, and what is picked by Enter on it; blank for nothing."""

    text: str
    look: str = PLAIN
    pick: str = ""


@dataclass(frozen=True, slots=True)
class Board:
    """A page; `hint` says what can be done with it."""

    title: str
    lines: Sequence[BoardLine]
    hint: str = ""


@dataclass(slots=True)
class Boards:
    """Owns the pages that were made last."""

    pages: dict[str, Board] = field(default_factory=dict)
    version: int = 0  # another one whenever one is

    def put(self, name: str, board: Board) -> None:
        """Take over a page."""
        self.pages[name] = board
        self.version += 1
