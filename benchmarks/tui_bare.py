"""The least that draws the same lines at the same rate: one view, whose changed lines are drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prsm_tui.screen.driver import TerminalDriver
from rich.segment import Segment
from textual.app import App
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

if TYPE_CHECKING:
    from textual.app import ComposeResult

FRAME_SECONDS = 1 / 15


class Lines(ScrollView):
    """Shows lines and follows their end."""

    DEFAULT_CSS = "Lines { overflow-x: hidden; scrollbar-size-vertical: 1; }"

    def __init__(self) -> None:
        super().__init__()
        self._lines = [""]
        self._drawn = 0

    def add(self, text: str) -> None:
        """Take more text."""
        width = max(8, self.size.width)
        for number, part in enumerate(text.split("\n")):
            if number:
                self._lines.append("")
            if len(self._lines[-1]) + len(part) > width:
                self._lines.append("")
            self._lines[-1] += part

    def draw(self) -> None:
        """Draw what has changed."""
        self.virtual_size = Size(self.size.width, len(self._lines))
        top = max(0, len(self._lines) - self.size.height)
        if round(self.scroll_y) != top:
            self.scroll_to(y=top, animate=False, immediate=True)
        begin = max(0, self._drawn - 1 - top)
        self._drawn = len(self._lines)
        self.refresh(Region(0, begin, self.size.width, self.size.height - begin))

    def render_line(self, y: int) -> Strip:
        """Draw a line."""
        at = round(self.scroll_y) + y
        text = self._lines[at] if at < len(self._lines) else ""
        return Strip([Segment(text)]).adjust_cell_length(self.size.width)


class Bare(App[None]):
    """Draws fifteen times a second."""

    ENABLE_COMMAND_PALETTE = False

    def __init__(self, terminal: Any, keyboard: int) -> None:
        self.terminal, self.keyboard = terminal, keyboard
        super().__init__(driver_class=TerminalDriver)
        self.lines = Lines()

    def compose(self) -> ComposeResult:
        """Show the lines."""
        yield self.lines

    def on_mount(self) -> None:
        """Begin to draw."""
        self.set_interval(FRAME_SECONDS, self.lines.draw)
