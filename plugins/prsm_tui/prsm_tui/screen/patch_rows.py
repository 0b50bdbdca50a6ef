"""Lines of a patch as rows: one below the other, or before and after in two columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from rich.cells import cell_len, chop_cells
from rich.segment import Segment
from rich.style import Style

from prsm_tui.model.patches import (
    ABOUT,
    ADDED,
    HUNK,
    REMOVED,
    Beside,
    PatchLine,
    beside,
    differing,
)
from prsm_tui.screen.wrapping import wrap_all

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from prsm_tui.screen.drawing import Row

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
class Item:
    """What the cursor stops at: one line, or one before and one after."""

    left: PatchLine | None
    right: PatchLine | None

    @property
    def kind(self) -> str:
        """The kind of its lines; `-` and `+` where a line was changed."""
        return "".join(dict.fromkeys(one.kind for one in (self.left, self.right) if one))

    def line(self, side: str) -> PatchLine | None:
        """Return the line that a side, left or right, means: the other one where it has none."""
        first, second = (self.left, self.right) if side == "left" else (self.right, self.left)
        return first or second


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


def items_of(lines: Sequence[PatchLine], width: int) -> tuple[Sheet, Sequence[Item]]:
    """Return what is drawn of a patch in so many columns, and how."""
    is_wide = width >= SIDE_BY_SIDE
    numbers = [number for line in lines for number in (line.old, line.new) if number is not None]
    sheet = Sheet(width, max(2, len(str(max(numbers, default=0)))), is_wide)
    if not is_wide:
        return sheet, [Item(line, line) for line in lines]
    pairs: Sequence[Beside] = beside(lines)
    return sheet, [Item(pair.left, pair.right) for pair in pairs]


def height_of(item: Item, sheet: Sheet) -> int:
    """Return how many rows an item has; most have one, which is seen without drawing it."""
    room = (sheet.width - len(_BETWEEN)) // 2 - sheet.digits - 3 if sheet.is_wide else 0
    room = room or sheet.width - 2 * sheet.digits - 4
    texts = [one.text for one in (item.left, item.right) if one is not None]
    if all(len(text) <= room and text.isascii() and "\t" not in text for text in texts):
        return 1
    return len(draw_item(item, sheet))


def draw_item(
    item: Item, sheet: Sheet, cursor: str = "", noted: Collection[PatchLine] = ()
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


def _columns(item: Item, sheet: Sheet, cursor: str, noted: Collection[PatchLine]) -> Iterator[Row]:
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
    for place in range(max(map(len, sides))):
        left, right = (side[place] if place < len(side) else [] for side in sides)
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
