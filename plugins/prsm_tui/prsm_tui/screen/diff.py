"""What one change did to lines: a cursor goes from line to line, and nothing of them is left out.

Where there is room, lines before and after stand beside each other.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

from rich.cells import cell_len, chop_cells
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Size
from textual.strip import Strip

from prsm_tui.keys import DIFF
from prsm_tui.model.patches import ABOUT, ADDED, HUNK, REMOVED, Beside, PatchLine, beside, differing
from prsm_tui.screen.keys import bindings
from prsm_tui.screen.lines import Rows
from prsm_tui.screen.wrapping import wrap_all

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from textual import events

    from prsm_tui.screen.drawing import Row


class Diff(Rows, can_focus=True):
    """Shows the lines of one patch, or a text in place of them."""

    BINDINGS = bindings(DIFF)
    ALLOW_SELECT = False  # what is dragged over is chosen, to be commented on
    DEFAULT_CSS = """
    Diff { overflow-x: hidden; overflow-y: scroll; scrollbar-size-vertical: 1; }
    """

    def __init__(self) -> None:
        super().__init__(id="diff")
        self._lines: Sequence[PatchLine] = ()
        self._text = ""
        self._sheet = Sheet(2, 2, is_wide=False)
        self._items: Sequence[Beside] = ()
        self._starts: list[int] = []  # the first row of each item
        self._height = 0
        self.cursor = 0
        self._anchor: int | None = None  # where the lines that are chosen begin, or end
        self._noted: frozenset[PatchLine] = frozenset()  # lines that something is said about
        self.side = "right"

    def show(self, lines: Sequence[PatchLine], text: str = "") -> None:
        """Show a patch, its first change under the cursor; or `text`, where there are no lines."""
        if lines is self._lines and text == self._text:
            return
        self._lines, self._text = lines, text
        self.side, self._anchor = "right", None
        self._lay_out()
        found = (n for n, item in enumerate(self._items) if set(item.kind) & {"+", "-"})
        self.cursor = next(found, 0)
        self.scroll_to(y=0, animate=False, immediate=True)
        self._reveal()

    @property
    def current(self) -> PatchLine | None:
        """The line that the cursor is on; None where that is no line of the file."""
        if not self.cursor < len(self._items):
            return None
        line = self._items[self.cursor].line(self.side)
        return line if line is not None and line.is_content else None

    @property
    def chosen(self) -> tuple[PatchLine, ...]:
        """The lines of the file that are chosen, or the one that the cursor is on."""
        if not self.has_region:
            return () if self.current is None else (self.current,)
        found = (self._items[place].line(self.side) for place in self._region)
        return tuple(line for line in found if line is not None and line.is_content)

    @property
    def has_region(self) -> bool:
        """Whether several lines are chosen."""
        return len(self._region) > 1

    def drop_region(self) -> None:
        """Choose the line of the cursor alone."""
        self._anchor = None
        self.refresh()

    def note(self, lines: Iterable[PatchLine]) -> None:
        """Mark lines that something is said about."""
        noted = frozenset(lines)
        if noted != self._noted:
            self._noted = noted
            self.refresh()

    def action_choose(self, step: int) -> None:
        anchor = self.cursor if self._anchor is None else self._anchor
        self._go(self.cursor + step)
        self._anchor = anchor

    def action_move(self, step: int) -> None:
        self._go(self.cursor + step)

    def action_page(self, step: int) -> None:
        if self._items:
            row = self._starts[self.cursor] + step * max(1, self.size.height - 2)
            self._go(bisect_right(self._starts, max(0, row)) - 1)

    def action_edge(self, place: int) -> None:
        self._go(0 if place == 0 else len(self._items) - 1)

    def action_hunk(self, step: int) -> None:
        places = [n for n, item in enumerate(self._items) if item.kind == HUNK]
        found = [n for n in places[::step] if (n - self.cursor) * step > 0]
        if found:
            self._go(found[0])

    def action_side(self, side: str) -> None:
        self.side = side
        self.refresh()

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Go to the line that was pressed on, and to its side; what is dragged over is chosen."""
        place = self._place_at(event.y)
        if place is not None:
            self.side = "left" if self._sheet.is_wide and event.x < self._width // 2 else "right"
            self._go(place)
            self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Choose what is dragged over."""
        place = self._place_at(event.y) if self.app.mouse_captured is self else None
        if place is not None and place != self.cursor:
            self.action_choose(place - self.cursor)

    def on_mouse_up(self, _: events.MouseUp) -> None:
        """End what was dragged."""
        self.release_mouse()

    def on_resize(self, _: events.Resize) -> None:
        """Rows depend on the width; where that stays, so does what is chosen."""
        if self._sheet.width == max(8, self._width):
            self._reveal()
            return
        line, self._anchor = self.current, None
        self._lay_out()
        places = (n for n, item in enumerate(self._items) if line in (item.left, item.right))
        self.cursor = next(places, 0) if line is not None else self.cursor
        self._reveal()

    def render_line(self, y: int) -> Strip:
        width, at = self._cells, round(self.scroll_y) + y
        if not self._items:
            rows = wrap_all(self._text, max(2, width))
            strip = Strip([Segment(rows[at], _DIM)] if at < len(rows) else [])
            return strip.adjust_cell_length(width).apply_style(self._base)
        if at >= self._height:
            return Strip.blank(width, self._base)
        place = bisect_right(self._starts, at) - 1
        cursor = self.side if place in self._region else ""
        item = self._items[place]
        row = draw_item(item, self._sheet, cursor, self._noted)[at - self._starts[place]]
        return Strip(row).adjust_cell_length(width).apply_style(self._base)

    @property
    def _region(self) -> range:
        ends = self.cursor, self.cursor if self._anchor is None else self._anchor
        return range(min(ends), max(ends) + 1)

    def _place_at(self, y: int) -> int | None:
        row = round(self.scroll_y) + y
        if not self._items or not 0 <= row < self._height:
            return None
        return bisect_right(self._starts, row) - 1

    def _go(self, place: int) -> None:
        self._anchor = None
        self.cursor = max(0, min(len(self._items) - 1, place))
        self._reveal()

    def _lay_out(self) -> None:
        """Find the rows of each item; they are drawn when they are seen."""
        width = max(8, self._width)
        self._sheet, self._items = items_of(self._lines, width)
        self._starts, row = [], 0
        for item in self._items:
            self._starts.append(row)
            row += height_of(item, self._sheet)
        self._height = row
        height = row if self._items else len(wrap_all(self._text, width))
        self.virtual_size = Size(width, max(1, height))
        self.refresh()

    def _reveal(self) -> None:
        if self._items and self.size.height:
            top = self._starts[self.cursor]
            last = self._starts[self.cursor + 1 : self.cursor + 2]
            bottom = last[0] if last else self._height
            at, height = round(self.scroll_y), self.size.height
            if top < at or bottom - top > height:
                self.scroll_to(y=top, animate=False, immediate=True)
            elif bottom > at + height:
                self.scroll_to(y=bottom - height, animate=False, immediate=True)
        self.refresh()


SIDE_BY_SIDE = 120  # columns from which on two columns are drawn
_TAB = 4
_PLAIN, _DIM = Style(), Style(dim=True)
_STYLES: Mapping[str, Style] = {
    ADDED: Style(color="green"),
    REMOVED: Style(color="red"),
    HUNK: Style(color="cyan"),
    ABOUT: Style(dim=True, italic=True),
}
_BETWEEN = " │ "
_NOTED = "*"

Part = tuple[int, int]  # of a text: where it begins and ends


@dataclass(frozen=True, slots=True)
class Sheet:
    """How items are drawn: the cells of a row, and the digits of the highest number."""

    width: int
    digits: int
    is_wide: bool


class _Cell(NamedTuple):
    """How a line is drawn in a column; `part` of it stands out."""

    gutter: str
    width: int
    part: Part | None
    is_marked: bool
    is_noted: bool


def items_of(lines: Sequence[PatchLine], width: int) -> tuple[Sheet, Sequence[Beside]]:
    """Return what is drawn of a patch in so many columns, and how."""
    is_wide = width >= SIDE_BY_SIDE
    numbers = [number for line in lines for number in (line.old, line.new) if number is not None]
    sheet = Sheet(width, max(2, len(str(max(numbers, default=0)))), is_wide)
    if not is_wide:
        return sheet, [Beside(line, line) for line in lines]
    return sheet, beside(lines)


def height_of(item: Beside, sheet: Sheet) -> int:
    """Return how many rows an item has; most have one, which is seen without drawing it."""
    room = (sheet.width - len(_BETWEEN)) // 2 - sheet.digits - 3 if sheet.is_wide else 0
    room = room or sheet.width - 2 * sheet.digits - 4
    texts = [one.text for one in (item.left, item.right) if one is not None]
    if all(len(text) <= room and text.isascii() and "\t" not in text for text in texts):
        return 1
    return len(draw_item(item, sheet))


def draw_item(
    item: Beside, sheet: Sheet, cursor: str = "", noted: Collection[PatchLine] = ()
) -> Sequence[Row]:
    """Return an item as rows; `cursor` is the side that the cursor is on, blank for none.

    A line that is `noted` has a sign: something is said about it.
    """
    line = item.left
    if line is not None and line.kind in {HUNK, ABOUT}:
        return list(_head(line, sheet.width, is_marked=bool(cursor)))
    if sheet.is_wide:
        return list(_columns(item, sheet, cursor, noted))
    if line is None:
        return []
    gutter = f"{_number(line.old, sheet)} {_number(line.new, sheet)} "
    look = _Cell(gutter, sheet.width, None, bool(cursor), line in noted)
    return list(_cell(line, look))


def _head(line: PatchLine, width: int, *, is_marked: bool) -> Iterator[Row]:
    style = _STYLES[line.kind] + Style(reverse=is_marked)
    yield from ([Segment(row, style)] for row in wrap_all(line.text, max(2, width)) or [""])


def _columns(
    item: Beside, sheet: Sheet, cursor: str, noted: Collection[PatchLine]
) -> Iterator[Row]:
    half = (sheet.width - len(_BETWEEN)) // 2
    parts: tuple[Part | None, Part | None] = (None, None)
    if item.left and item.right and item.left.kind == REMOVED:
        parts = differing(item.left.text, item.right.text)
    at = cursor and ("left" if item.line(cursor) is item.left else "right")
    if item.left is item.right:
        at = cursor
    sides: list[Sequence[Row]] = []
    for line, part, side in zip((item.left, item.right), parts, ("left", "right"), strict=True):
        if line is None:
            sides.append([])
            continue
        gutter = f"{_number(line.old if side == 'left' else line.new, sheet)} "
        look = _Cell(gutter, half, part, at == side, line in noted)
        sides.append(list(_cell(line, look)))
    for left, right in zip_longest(*sides, fillvalue=[]):
        used = sum(segment.cell_length for segment in left)
        yield [*left, Segment(" " * (half - used)), Segment(_BETWEEN, _DIM), *right]


def _cell(line: PatchLine, look: _Cell) -> Iterator[Row]:
    """Yield a line in a column: numbers and sign in front of its first row, all of its text."""
    style = _STYLES.get(line.kind, _PLAIN)
    mark = Style(reverse=look.is_marked)
    width = cell_len(look.gutter)
    sign = f"{line.kind}{_NOTED if look.is_noted else ' '}"
    lead = [Segment(look.gutter, _DIM + mark), Segment(sign, style + mark)]
    rest = [Segment(" " * (width + 2), mark)]
    for number, row in enumerate(
        _chopped(line.text, look.part, style, max(2, look.width - width - 2))
    ):
        shown = [Segment(one.text, (one.style or _PLAIN) + mark) for one in row]
        yield [*(lead if number == 0 else rest), *shown]


def _chopped(text: str, part: Part | None, style: Style, width: int) -> Iterator[Row]:
    """Yield a text as rows of at most `width` cells; a part of it stands out."""
    start, end = part or (0, 0)
    row: Row = []
    used = 0
    for piece, its in ((text[:start], style), (text[start:end], style + _OUT), (text[end:], style)):
        left = piece.expandtabs(_TAB)
        while left:
            fits = chop_cells(left, width - used)[0] if used < width else ""
            if fits and used + cell_len(fits) <= width:
                row.append(Segment(fits, its))
                used += cell_len(fits)
                left = left[len(fits) :]
            else:
                yield row
                row, used = [], 0
    yield row


_OUT = Style(bold=True, underline=True)


def _number(number: int | None, sheet: Sheet) -> str:
    return f"{'' if number is None else number:>{sheet.digits}}"
