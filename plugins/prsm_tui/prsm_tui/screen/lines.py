"""A list of lines with a cursor: those that are seen are made, those that changed are drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from prsm_tui.screen.wrapping import cut

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual import events

Line = tuple[str, Style]
_CURSOR = Style(reverse=True)


class Rows(ScrollView):
    """Draws rows as wide as itself; the style they have in common is worked out once."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - as Textual names it
        super().__init__(id=id)
        self._base, self._cells = Style(), 0  # of the rows that are drawn

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw rows of the widget."""
        self._base, self._cells = self.rich_style, self._width
        return super().render_lines(crop)

    @property
    def _width(self) -> int:
        """The cells of a row: a bar, where there is one, stands beside them."""
        return self.scrollable_content_region.width


class Lines(Rows, can_focus=True):
    """Shows `count` lines, each made by `make` when it is seen; `cursor` is one of them, or -1."""

    DEFAULT_CSS = """
    Lines { overflow-x: hidden; scrollbar-size-vertical: 1; }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - as Textual names it
        super().__init__(id=id)
        self.count = 0
        self.cursor = -1
        self._make: Callable[[int, int], Line] = lambda _index, _width: ("", Style())
        self._drawn: dict[int, tuple[Line, bool]] = {}

    def provide(self, count: int, make: Callable[[int, int], Line]) -> None:
        """Show other lines; `make` gets the index and the width of a line."""
        self._make = make
        if count != self.count:
            self.count = count
            self.virtual_size = Size(max(1, self._width), count)
            self._drawn.clear()
            self.refresh()
        self.update()

    def update(self) -> None:
        """Draw again what has changed of what is seen."""
        top = round(self.scroll_y)
        for index in range(top, min(self.count, top + self.size.height)):
            if self._drawn.get(index) != self._line(index):
                self.refresh(Region(0, index - top, self._width, 1))

    def put_cursor(self, index: int) -> None:
        """Put the cursor on a line, and show it."""
        self.cursor = index
        height = self.size.height
        if index >= 0 and height:
            top = round(self.scroll_y)
            if index < top:
                self.scroll_to(y=index, animate=False, immediate=True)
            elif index >= top + height:
                self.scroll_to(y=index - height + 1, animate=False, immediate=True)
        self.update()

    def render_line(self, y: int) -> Strip:
        index, width = round(self.scroll_y) + y, self._cells
        if index >= self.count:
            return Strip.blank(width, self._base)
        (text, style), has_cursor = self._drawn[index] = self._line(index)
        style = style + _CURSOR if has_cursor else style
        strip = Strip([Segment(cut(text, width), style)]).adjust_cell_length(width, style)
        return strip.apply_style(self._base)

    def on_resize(self, _: events.Resize) -> None:
        self.virtual_size = Size(max(1, self._width), self.count)
        self._drawn.clear()
        self.put_cursor(self.cursor)
        self.refresh()

    def _line(self, index: int) -> tuple[Line, bool]:
        return self._make(index, self._width), index == self.cursor
