"""The transcript of the chosen agent: blocks as rows, of which those at the end are laid out first.

It follows its end. Scrolled up it stays where it is, and counts what is new below. Blocks before
those that are laid out are laid out, and pages of the history wanted, when somebody scrolls there.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.style import Style
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from prsm_tui.keys import TRANSCRIPT
from prsm_tui.model.blocks import Block, Call, Said
from prsm_tui.screen.drawing import Look, Row, can_open, draw, text_of
from prsm_tui.screen.keys import bindings
from prsm_tui.screen.messages import AgentChosen, HistoryWanted, TextCopied

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events

    from prsm_tui.model.session import Session
    from prsm_tui.model.transcript import Transcript as Model

_LAID_OUT = 100  # blocks, to begin with and each time somebody scrolls to the beginning
_TRIMMED = 200  # blocks that are laid out at most while it follows its end


@dataclass(slots=True)
class _Item:
    """A block as it is laid out; `drawn` is what it depended on."""

    block: Block
    drawn: object = None
    rows: Sequence[Row] = field(default_factory=list)


class Transcript(ScrollView, can_focus=True):
    """Shows the blocks of one agent, or of the session."""

    BINDINGS = bindings(TRANSCRIPT)
    DEFAULT_CSS = """
    Transcript { overflow-x: hidden; overflow-y: scroll; scrollbar-size-vertical: 1; }
    """

    def __init__(self, session: Session) -> None:
        super().__init__(id="transcript")
        self._session = session
        self._model = session.transcript
        self._items: list[_Item] = []
        self._ends: list[int] = []  # the row behind each item
        self._start = 0  # of the blocks that are laid out
        self._open: set[int] = set()  # the identities of blocks that are unfolded
        self._marked: Block | None = None
        self.follows = True
        self._seen = 0  # rows, when it stopped to follow
        self._base, self._cells = Style(), 0  # of the rows that are drawn
        self._place = (0, 0)  # of the bar, in eighths of a row: how long it is, and where

    @property
    def new(self) -> int:
        """How many rows are new below; 0 while it follows its end."""
        return 0 if self.follows else max(0, self._height - self._seen)

    def end_text(self, blocks: int) -> str:
        """Return the text of the last so many blocks as they are laid out."""
        rows = (row for item in self._items[-blocks:] for row in item.rows)
        return "".join(segment.text for row in rows for segment in row)

    @property
    def model(self) -> Model:
        """What is shown."""
        return self._model

    def show(self, model: Model) -> None:
        """Show another transcript, at its end."""
        self._model.is_held = self._model is self._session.transcript
        self._model = model
        self._items, self._ends = [], []
        self._start = max(0, len(model.blocks) - _LAID_OUT)
        self._marked, self.follows = None, True
        self.sync()
        self.refresh()

    def sync(self) -> None:
        """Follow the model."""
        if not self._width:
            return
        before = self._height
        first = self._lay_out()
        self._grow_to(Size(self._width, self._height))
        if self.follows:
            end = max(0, self._height - self.size.height)
            if round(self.scroll_y) != end:
                self.scroll_to(y=end, animate=False, immediate=True)
        if first is not None or before != self._height:
            self._draw_from(min(before, self._height) if first is None else self._top(first))

    def action_scroll(self, step: int) -> None:
        """Go some rows down or up."""
        self._go(round(self.scroll_y) + step)

    def action_page(self, step: int) -> None:
        """Go a page down or up."""
        self._go(round(self.scroll_y) + step * max(1, self.size.height - 2))

    def action_edge(self, place: int) -> None:
        """Go to the beginning or the end."""
        self._go(0 if place == 0 else self._height)

    def action_mark(self, step: int) -> None:
        """Mark the next thing that opens, or the one before."""
        places = [n for n, item in enumerate(self._items) if can_open(item.block)]
        at = next((n for n, item in enumerate(self._items) if item.block is self._marked), None)
        if at is None:
            found = places[::-step]
        else:
            found = [n for n in places[::step] if (n - at) * step > 0]
        if found:
            self._marked = self._items[found[0]].block
            self.sync()
            self._reveal(found[0])

    def reveal(self, block: Block) -> None:
        """Mark a block of the model, and show it."""
        place = next((n for n, one in enumerate(self._model.blocks) if one is block), None)
        if place is None:
            return
        self.follows, self._marked = False, block
        if place < self._start:
            self._start = place
            self._items, self._ends = [], []
        self.sync()
        self._reveal(place - self._start)

    def action_open(self) -> None:
        """Unfold what is marked, or open the agent of a card."""
        if isinstance(self._marked, Call) and self._marked.child in self._session.agents:
            self.post_message(AgentChosen(self._marked.child, opens=True))
        elif self._marked is not None:
            self._open ^= {id(self._marked)}
            self.sync()

    def action_copy(self) -> None:
        """Copy what is marked, else what the agent has said last."""
        said = [block for block in self._model.blocks if isinstance(block, Said)]
        block = self._marked or (said[-1] if said else None)
        if block is not None:
            self.post_message(TextCopied(text_of(block)))

    def on_click(self, event: events.Click) -> None:
        """Mark what was clicked and opens; a second click opens it."""
        place = bisect_right(self._ends, round(self.scroll_y) + event.y)
        if place < len(self._items) and can_open(self._items[place].block):
            self._marked = self._items[place].block
            self.sync()
            if event.chain > 1:
                self.action_open()

    def on_resize(self, _: events.Resize) -> None:
        """Rows depend on the width."""
        self.sync()
        self.refresh()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Note whether it still is at its end: the wheel and the bar scroll, too."""
        if round(old_value) != round(new_value):
            self.refresh(Region(0, 0, self._width, self.size.height))
        self._show_place()
        is_at_end = round(new_value) >= self._height - self.size.height
        if self.follows and not is_at_end:
            self._seen = self._height
        self.follows = is_at_end
        self._model.is_held = not is_at_end or self._model is self._session.transcript
        if new_value < old_value and round(new_value) <= 0:
            self._want_more()

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw rows of the widget: their common style is worked out once."""
        self._base, self._cells = self.rich_style, self._width
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        """Draw a row of the widget."""
        width, at = self._cells, round(self.scroll_y) + y
        place = bisect_right(self._ends, at)
        if place >= len(self._items):
            return Strip.blank(width, self._base)
        item = self._items[place]
        row = item.rows[at - (self._ends[place] - len(item.rows))]
        # Each change of style is written out: what looks the same is one.
        return Strip(row).adjust_cell_length(width).apply_style(self._base).simplify()

    def _grow_to(self, size: Size) -> None:
        """Have this many rows: where things are on the screen stays, so nothing is arranged."""
        if size != self.virtual_size:
            self.set_reactive(ScrollView.virtual_size, size)
            self._show_place()

    def _show_place(self) -> None:
        """Draw the bar again, where that is to be seen: it costs a cell of every row."""
        window = max(1, self.size.height)
        height = max(window, self._height)
        seen = round(8 * window * window / height), round(8 * window * self.scroll_y / height)
        if seen != self._place:
            self._place = seen
            self._scroll_update(self.virtual_size)
            self.vertical_scrollbar.position = self.scroll_y

    @property
    def _width(self) -> int:
        """The cells of a row: the bar stands beside them."""
        return self.scrollable_content_region.width

    @property
    def _height(self) -> int:
        return self._ends[-1] if self._ends else 0

    def _lay_out(self) -> int | None:
        """Lay out what has changed; return the first item that has, None for none."""
        self._find_start()
        blocks = [*self._model.blocks[self._start :], *self._model.saying()]
        first: int | None = None
        known = self._items
        items: list[_Item] = []
        for place, block in enumerate(blocks):
            item = known[place] if place < len(known) else None
            if item is None or item.block is not block:
                item = _Item(block)
            if self._draw(item) and first is None:
                first = place
            items.append(item)
        if len(known) > len(items) and first is None:
            first = max(0, len(items) - 1)
        self._items = items
        if first is not None:
            top = self._top(first)
            del self._ends[first:]
            for item in items[first:]:
                top += len(item.rows)
                self._ends.append(top)
        return first

    def _find_start(self) -> None:
        """Follow what is laid out where a page came in front, and let go of what is far up."""
        blocks = self._model.blocks
        if self.follows and len(blocks) - self._start > _TRIMMED:
            self._start = len(blocks) - _LAID_OUT
            self._items, self._ends = [], []
        if not self._items or not blocks:
            return
        first = self._items[0].block
        if self._start < len(blocks) and blocks[self._start] is first:
            return
        found = next((n for n, block in enumerate(blocks) if block is first), None)
        if found is None:  # it was let go
            self._start = max(0, len(blocks) - _LAID_OUT)
            self._items, self._ends = [], []
            return
        self._start = found

    def _draw(self, item: _Item) -> bool:
        """Draw a block, if what its rows depend on has changed; return whether it had."""
        block = item.block
        look = Look(
            width=self._width,
            is_open=id(block) in self._open,
            is_marked=block is self._marked,
        )
        child = self._session.agents.get(block.child or "") if isinstance(block, Call) else None
        shown = look, block.version, child and (child.state, self._session.asks(child.id))
        if item.drawn == shown:
            return False
        item.drawn, item.rows = shown, draw(block, look, self._session)
        return True

    def _top(self, place: int) -> int:
        return self._ends[place - 1] if 0 < place <= len(self._ends) else 0

    def _draw_from(self, row: int) -> None:
        """Draw again from a row on, as far as it is seen."""
        top = max(0, row - round(self.scroll_y))
        if top < self.size.height:
            self.refresh(Region(0, top, self._width, self.size.height - top))

    def _go(self, row: int) -> None:
        end = max(0, self._height - self.size.height)
        if row < 0 or (row == 0 and round(self.scroll_y) == 0):
            self._want_more()
        self.scroll_to(y=min(end, max(0, row)), animate=False, immediate=True)

    def _reveal(self, place: int) -> None:
        top, bottom = self._top(place), self._ends[place]
        at, height = round(self.scroll_y), self.size.height
        if top < at or bottom > at + height:
            self._go(min(top, max(top - height // 2, 0)) if top < at else bottom - height)

    def _want_more(self) -> None:
        """Lay out more blocks in front; where there are none, want a page of the history."""
        if self._start:
            self.grow()
        elif not self._model.is_whole:
            self.post_message(HistoryWanted())

    def grow(self) -> None:
        """Lay out more blocks in front, and stay at what is seen."""
        self._find_start()
        before, at, follows = self._height, round(self.scroll_y), self.follows
        self._start = max(0, self._start - _LAID_OUT)
        self._items, self._ends = [], []
        self.follows = False
        self.sync()
        self.follows = follows
        self.scroll_to(y=at + self._height - before, animate=False, immediate=True)
        self.refresh()
