"""The screen of a terminal: lines scroll by above, and what is open stays at the bottom.

What stays is the foot: the requests, the status, and the row in which a person types. A line of
news pushes it down, and of its own rows only those are written that have changed. A foot of another
height, or on a terminal of another size, is drawn anew. Each change is one write. Whatever is asked
ends up once among the lines that scroll by: when it has ended, or at once if it is too long to
stay.
"""

from __future__ import annotations

import io
import os
import shutil
from functools import partial
from typing import TYPE_CHECKING, TextIO

from msgspec import Struct

from prsm_console.screen import Screen
from prsm_core.kit import escape_exact
from prsm_core.terminal import LOST, Outlet, cut, rows_of, tail, text_width

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from prsm_console.screen import Shown

_DRAFT = "> "
_SHARE = 3 / 4  # of the terminal's rows, at most, for what stays
_LEAST_ROWS = 6
_HEAD = 2  # rows of a request that does not fit


class Size(Struct, frozen=True):
    """A terminal's size in cells."""

    columns: int
    rows: int


class AboveScreen(io.TextIOBase):
    """Stands in for stderr: what others write there goes among the lines, whole."""

    def __init__(self, screen: Screen, stream: TextIO) -> None:
        self._screen = screen
        self._stream = stream
        self._begun = ""

    def write(self, text: str) -> int:
        """Print the lines that are complete."""
        *lines, self._begun = (self._begun + text).split("\n")
        self._screen.print_lines(lines)
        return len(text)

    def isatty(self) -> bool:
        """Return what the terminal itself says."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """Return the descriptor of the terminal."""
        return self._stream.fileno()


class LiveScreen(Screen):
    """Keeps the foot at the bottom of a terminal that can move its cursor.

    `invite` is what stands in the row for typing while nothing is typed; nothing is typed at all
    without one, and then the row is shown only while something is asked.
    """

    def __init__(
        self, stream: TextIO, *, invite: str = "", size: Callable[[], Size] | None = None
    ) -> None:
        super().__init__(stream)
        self._invite = invite
        self._size = size or partial(_size_of, stream)
        self._status = ""
        self._requests: dict[str, Shown] = {}
        self._again = ""
        self._waiting = 0  # requests that are asked about later
        self._printed: set[str] = set()  # requests that are among the lines already
        self._typed = ""
        self._is_draft = False  # what is typed is no answer, though something is asked
        self._drawn: list[str] = []  # the rows of the foot that stand on the terminal
        self._drawn_for: Size | None = None
        self._is_away = False

    def print_lines(self, lines: Iterable[str]) -> None:
        """Print lines above the foot."""
        self._draw(list(lines))

    def show_status(self, text: str) -> None:
        """Replace the status line; also the moment to see that the terminal has another size."""
        if text != self._status or self._size() != self._drawn_for:
            self._status = text
            self._draw()

    def show_typed(self, text: str, *, is_draft: bool) -> None:
        """Show what is typed; a draft is no answer, though something may be asked."""
        self._typed, self._is_draft = text, is_draft
        self._draw()

    def show_requests(self, requests: Sequence[Shown], *, again: str = "") -> None:
        """Let these requests, and no others, stay at the bottom."""
        self._requests = {shown.request: shown for shown in requests}
        self._again = again
        self._draw()

    def show_waiting(self, count: int) -> None:
        """Show how many requests wait behind those that are asked about."""
        if count != self._waiting:
            self._waiting = count
            self._draw()

    def show_again(self) -> bool:
        """Print what is asked once more among the lines."""
        self._printed.update(self._requests)
        self._draw([line for shown in self._requests.values() for line in shown.lines])
        return True

    def forget(self, request: str) -> None:
        """Take a request out of the foot; what was asked stays readable among the lines."""
        shown = self._requests.pop(request, None)
        told = request in self._printed
        self._printed.discard(request)
        self._draw([] if told or shown is None else list(shown.lines))

    def open_prompt(self, text: str) -> None:
        """Show a prompt in the row for typing."""
        self._prompt = text
        self._draw()

    def close_prompt(self, *, answered: bool) -> None:
        """Forget the prompt, if one is open."""
        self._prompt = ""
        self._draw()

    def step_back(self, is_away: bool) -> None:
        """Show the foot only while this process has the terminal to itself."""
        if is_away != self._is_away:
            self._is_away = is_away
            self._drawn = []  # a shell has written below what stood there
            self._draw()

    def close(self) -> None:
        """Take the foot away for good; what was still asked stays among the lines."""
        asked = [line for shown in self._requests.values() for line in shown.lines]
        self._requests, self._prompt, self._status = {}, "", ""
        self._is_away = True
        self._draw(asked)

    def _draw(self, above: Sequence[str] = ()) -> None:
        """Write lines and the foot below them, in place of the one that stands there."""
        size = self._size()
        foot, folded = ([], []) if self._is_away else self._foot(size)
        lines = [row for line in (*above, *folded) for row in rows_of(line, size.columns - 1)]
        if isinstance(self._stream, Outlet):
            if not lines and self._stream.is_behind:
                self._drawn_for = None  # so that the next tick draws it
                return
            if lost := self._stream.take_lost():
                lines = [LOST.format(count=lost), *lines]
        text = self._changed(size, lines, foot)
        if text and self._stream.write(text) == 0:  # dropped
            self._drawn_for = None
            return
        self._drawn, self._drawn_for = foot, size
        self._stream.flush()

    def _changed(self, size: Size, lines: Sequence[str], foot: Sequence[str]) -> str:
        """Return what puts lines above the foot, and this foot in the place of what stands there.

        The cursor stands in the last row of the foot, before and after.
        """
        last, is_typed_at = len(foot) - 1, self._cursor(foot, size)
        stays = len(foot) == len(self._drawn) and size == self._drawn_for
        if not (foot and stays and len(lines) + len(foot) <= size.rows):
            above = "".join(f"{line}\n" for line in lines)
            return self._erased(size) + above + "\n".join(foot) + _moved(last, last, is_typed_at)
        text, row = "", last
        if lines:  # rows below the foot, as many above it instead, and the lines in those
            count = len(lines)
            up = f"\r\x1b[{last + count}A" if last + count else "\r"
            text, row = "\n" * count + up + f"\x1b[{count}L", 0
            text += "".join(f"{line}\n" for line in lines)
        for number, (old, new) in enumerate(zip(self._drawn, foot, strict=True)):
            if old != new:
                text += _moved(row, number, 0) + new + "\x1b[K"
                row = number
        at = text_width(foot[-1]) if is_typed_at is None else is_typed_at
        return text and text + _moved(row, last, at)

    def _cursor(self, foot: Sequence[str], size: Size) -> int | None:
        """Return the column of the cursor; None: behind the text of the last row."""
        invites = foot and foot[-1] == cut(_DRAFT + self._invite, size.columns - 1)
        return len(_DRAFT) if invites else None

    def _erased(self, size: Size) -> str:
        """Return what takes the foot away: the terminal may have folded its rows meanwhile."""
        if not self._drawn:
            return ""
        rows = sum(max(1, -(-text_width(row) // size.columns)) for row in self._drawn)
        return "\r" + (f"\x1b[{rows - 1}A" if rows > 1 else "") + "\x1b[J"

    def _foot(self, size: Size) -> tuple[list[str], list[str]]:
        """Return the rows that stay, and the lines of requests that are too long for that."""
        width = size.columns - 1
        typing = self._typing(width)
        room = max(_LEAST_ROWS, int(size.rows * _SHARE)) - len(typing) - 1
        asked, folded = self._asked(width, room)
        rule = ["─" * min(width, 72)] if asked else []
        return [*rule, *asked, *typing], folded

    def _asked(self, width: int, room: int) -> tuple[list[str], list[str]]:
        """Return the rows of the requests, the one that is asked about last.

        Those that do not fit are cut to their heads, and all of their lines go above.
        """
        blocks: list[list[str]] = []
        new: list[Shown] = []
        left = room
        for after, shown in zip(
            range(len(self._requests) - 1, -1, -1), self._requests.values(), strict=True
        ):
            block = [row for line in shown.lines for row in rows_of(line, width)]
            if shown.request in self._printed or len(block) > left - _HEAD * after:
                new += [] if shown.request in self._printed else [shown]
                again = "  all of it stands above" + (self._again and f"; {self._again}")
                block = [cut(shown.head, width), cut(again, width)]
            left -= len(block)
            blocks.append(block)
        rows = [row for block in (*blocks[1:], *blocks[:1]) for row in block]
        self._printed.update(shown.request for shown in new)
        waits = [f"{self._waiting} more to answer after this"] if self._waiting else []
        return [*rows[-room:], *waits], [line for shown in new for line in shown.lines]

    def _typing(self, width: int) -> list[str]:
        """Return the row for typing, above it the status or the prompt that must wait."""
        if self._prompt and not self._is_draft:
            *rows, last = rows_of(self._prompt.rstrip(), width)
            typed = escape_exact(self._typed)
            if text_width(last) + 1 + text_width(typed) <= width:
                return [*rows, f"{last} {typed}"]
            return [*rows, last, _DRAFT + tail(typed, width - len(_DRAFT))]
        status = [cut(self._status, width)] if self._status and not self._prompt else []
        if self._prompt:
            status = rows_of(f"{self._prompt.rstrip()} (first end the line below)", width)
        if not self._invite:
            return status
        if not self._typed:
            return [*status, cut(_DRAFT + self._invite, width)]
        return [*status, _DRAFT + tail(escape_exact(self._typed), width - len(_DRAFT))]


def _moved(row: int, to: int, column: int | None) -> str:
    """Return what moves the cursor to another row of the foot, and there to a column if given."""
    if column is None:
        return ""
    rows = f"\x1b[{abs(to - row)}{'A' if to < row else 'B'}" if to != row else ""
    return rows + "\r" + (f"\x1b[{column}C" if column else "")


def _size_of(stream: TextIO) -> Size:
    try:
        size = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError, AttributeError):  # held in memory, or just gone
        size = shutil.get_terminal_size()
    return Size(size.columns or 80, size.lines or 24)
