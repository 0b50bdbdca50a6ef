"""The transcript of the chosen agent: blocks as rows, of which those at the end are laid out first.

It follows its end. Scrolled up it stays where it is and counts what is new below. Earlier blocks
are laid out, and pages of the history wanted, when somebody scrolls there. A place is a block and a
line of it, never a row of the screen, so it survives folding and another width.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import takewhile
from typing import TYPE_CHECKING

from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from prsm_tui.keys import FILTER, TRANSCRIPT
from prsm_tui.model.blocks import (
    Asked,
    Block,
    Call,
    Changed,
    Ending,
    Note,
    Plan,
    Prompt,
    Said,
    Thought,
)
from prsm_tui.screen.drawing import Look, Row, can_open, draw, text_of
from prsm_tui.screen.keys import bindings
from prsm_tui.screen.lines import Rows
from prsm_tui.screen.messages import AgentChosen, HistoryWanted, TextCopied
from prsm_tui.screen.wrapping import cut

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from textual import events

    from prsm_tui.keys import Keymap
    from prsm_tui.model.session import Session
    from prsm_tui.model.transcript import Transcript as Model

_LAID_OUT = 100  # blocks, to begin with and each time somebody scrolls to the beginning
_TRIMMED = 200  # blocks that are laid out at most while it follows its end

KINDS: Mapping[str, type[Block]] = {
    "prompts": Prompt,
    "texts": Said,
    "thoughts": Thought,
    "calls": Call,
    "plans": Plan,
    "files": Changed,
    "requests": Asked,
    "notes": Note,
    "endings": Ending,
}
_OF_KIND = ":"  # a word that begins so is the beginning of a kind's name


@dataclass(slots=True)
class _Item:
    """A block as it is laid out; `drawn` is what it depended on."""

    block: Block
    drawn: object = None
    rows: Sequence[Row] = field(default_factory=list)


class Transcript(Rows, can_focus=True):
    """Shows the blocks of one agent, or of the session."""

    BINDINGS = bindings(TRANSCRIPT)
    DEFAULT_CSS = """
    Transcript { overflow-x: hidden; overflow-y: scroll; scrollbar-size-vertical: 1; }
    """

    def __init__(self, session: Session, keymap: Keymap) -> None:
        super().__init__(id="transcript")
        self._session, self._keymap = session, keymap
        self.model = session.transcript
        self._readings: dict[Model, Reading] = {}
        self._reading = self._readings[self.model] = Reading()
        self._sifting = Sifting()
        self._items: list[_Item] = []
        self._ends: list[int] = []  # the row behind each item
        self._start = 0  # of the blocks that are laid out
        self._puts = False  # it puts itself where it is read, nobody scrolls
        self._fitted = Size()  # its size when it did so last
        self._wanted = -1  # the event before which a page was wanted, to find where one reads
        self._place = (0, 0)  # of the bar, in eighths of a row: how long it is, and where

    @property
    def follows(self) -> bool:
        """Whether it goes with its end."""
        return self._reading.follows

    @property
    def is_filtering(self) -> bool:
        """Whether letters are of a filter."""
        return self._reading.filter.is_typed

    @property
    def new(self) -> int:
        """How many rows are new below; 0 while it follows its end."""
        if self.follows:
            return 0
        newer = (*self._reading.newer(self.model.blocks), *self.model.saying())
        fresh, rows = set(map(id, newer)), 0
        for item in reversed(self._items):
            if id(item.block) not in fresh:
                break
            rows += len(item.rows)
        return max(0, rows - self._reading.streamed)

    @property
    def title(self) -> str:
        """What is above the rows: the filter, and how much of all it shows."""
        wanted = self._reading.filter
        if not wanted:
            return ""
        total = len(self.model.blocks) + len(self.model.saying())
        parts = [
            f"filter: {wanted.text}{'_' if wanted.is_typed else ''}",
            f"{len(self._items)} of {total}{'' if self.model.is_whole else ' that are loaded'}",
        ]
        unknown = read_sieve(wanted.text).unknown
        if unknown:
            parts.append(f"no kind is {unknown[0]}")
        if unknown or wanted.is_typed:
            parts.append(f"kinds: {' '.join(f':{name}' for name in KINDS)}")
        return cut(" · ".join(parts), max(1, self.size.width))

    def show(self, model: Model) -> None:
        """Show another transcript: as it was read before, or at its end."""
        self._reading.filter.keep()
        self.model.is_held = self.model is self._session.transcript
        self.model = model
        self._reading = self._readings.setdefault(model, Reading())
        self._wanted = -1
        self._hold()
        self._begin()

    def begin_filter(self) -> None:
        """Take letters for a filter from now on."""
        self._reading.filter.begin()
        self._begin()

    def clear_filter(self) -> bool:
        """Show all blocks again; return whether there was a filter."""
        wanted = self._reading.filter
        if not wanted:
            return False
        wanted.drop()
        self._begin()
        if self._reading.marked is not None:
            self.reveal(self._reading.marked)
        return True

    @property
    def filters(self) -> dict[str | None, str]:
        """The filters of all transcripts, by agent; None is the session."""
        texts = {model: one.filter.text for model, one in self._readings.items()}
        known: list[tuple[str | None, Model]] = [(None, self._session.transcript)]
        known += [(agent.id, agent.transcript) for agent in self._session.agents.values()]
        return {agent: texts[model] for agent, model in known if texts.get(model)}

    def put_filters(self, texts: Mapping[str | None, str]) -> None:
        """Filter the transcripts of these agents again."""
        for agent, text in texts.items():
            if agent is None or agent in self._session.agents:
                model = self._session.transcript_of(agent)
                self._readings.setdefault(model, Reading()).filter.text = text
        self._begin()

    def on_key(self, event: events.Key) -> None:
        """While a filter is typed, letters are of it."""
        wanted = self._reading.filter
        before = wanted.text
        if wanted.take(event, self._keymap) and wanted.text != before:
            self._begin()

    def on_blur(self) -> None:
        """Keep the filter: what is typed elsewhere is not of it."""
        self._reading.filter.keep()

    def sync(self) -> None:
        """Follow the model."""
        if not self._width:
            return
        before = self._height
        first = self._lay_out()
        self._put()
        if first is not None or before != self._height:
            self._draw_from(min(before, self._height) if first is None else self._top(first))

    def action_scroll(self, step: int) -> None:
        if round(self.scroll_y) + step < 0:
            self._want_more()
        self._go(round(self.scroll_y) + step)

    def action_page(self, step: int) -> None:
        self.action_scroll(step * max(1, self.size.height - 2))

    def action_edge(self, place: int) -> None:
        if place == 0 and round(self.scroll_y) == 0:
            self._want_more()
        self._go(0 if place == 0 else self._height)

    def action_mark(self, step: int) -> None:
        places = [n for n, item in enumerate(self._items) if can_open(item.block)]
        marked = self._reading.marked
        at = next((n for n, item in enumerate(self._items) if item.block is marked), None)
        if at is None:
            found = places[::-step]
        else:
            found = [n for n in places[::step] if (n - at) * step > 0]
        if found:
            self._reading.marked = self._items[found[0]].block
            self.sync()
            self._reveal(found[0])

    def reveal(self, block: Block) -> None:
        """Mark a block of the model, and show it."""
        place = next((n for n, one in enumerate(self.model.blocks) if one is block), None)
        if place is None:
            return
        wanted, spot = self._reading.filter, Spot.of(self.model.blocks, place, 0)
        had_filter = bool(wanted)
        wanted.drop()
        self._reading.marked = block
        self._stay(spot)
        if had_filter or place < self._start:
            self._begin()
        else:
            self.sync()
        self._go(self._top(place - self._start) - self.size.height // 3)
        if self.follows:  # it stays there, whatever comes
            self._stay(spot)

    def action_open(self) -> None:
        marked = self._reading.marked
        if isinstance(marked, Call) and marked.child in self._session.agents:
            self.post_message(AgentChosen(marked.child, opens=True))
        elif marked is not None:
            self._reading.turn(marked)
            self.sync()

    def action_copy(self) -> None:
        said = [block for block in self.model.blocks if isinstance(block, Said)]
        block = self._reading.marked or (said[-1] if said else None)
        if block is not None:
            self.post_message(TextCopied(text_of(block)))

    def on_click(self, event: events.Click) -> None:
        """Mark what was clicked and opens; a second click opens it."""
        place = bisect_right(self._ends, round(self.scroll_y) + event.y)
        if place < len(self._items) and can_open(self._items[place].block):
            self._reading.marked = self._items[place].block
            self.sync()
            if event.chain > 1:
                self.action_open()

    def on_resize(self, _: events.Resize) -> None:
        self.sync()
        self.refresh()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Note where somebody is: the wheel and the bar scroll, too."""
        if round(old_value) != round(new_value):
            self.refresh(Region(0, 0, self._width, self.size.height))
        self._show_place()
        if self._puts or self._fitted != self.size:  # it has to fit into another size
            return
        self._moved()
        if new_value < old_value and round(new_value) <= 0:
            self._want_more()

    def render_line(self, y: int) -> Strip:
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
    def _height(self) -> int:
        return self._ends[-1] if self._ends else 0

    def _lay_out(self) -> int | None:
        """Lay out what has changed; return the first item that has, None for none."""
        blocks = self._blocks()
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

    def _blocks(self) -> Sequence[Block]:
        sieve, saying = read_sieve(self._reading.filter.text), self.model.saying()
        if not sieve.passes_all:
            return self._sifting.sift(sieve, (*self.model.blocks, *saying))
        self._find_start()
        return [*self.model.blocks[self._start :], *saying]

    def _find_start(self) -> None:
        """Follow what is laid out where a page came in front, and let go of what is far up."""
        blocks = self.model.blocks
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
            is_open=id(block) in self._reading.opened,
            is_marked=block is self._reading.marked,
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
        top = max(0, row - round(self.scroll_y))
        if top < self.size.height:
            self.refresh(Region(0, top, self._width, self.size.height - top))

    def _go(self, row: int) -> None:
        end = max(0, self._height - self.size.height)
        self.scroll_to(y=min(end, max(0, row)), animate=False, immediate=True)
        self._moved()

    def _reveal(self, place: int) -> None:
        top, bottom = self._top(place), self._ends[place]
        at, height = round(self.scroll_y), self.size.height
        if top < at or bottom > at + height:
            self._go(min(top, max(top - height // 2, 0)) if top < at else bottom - height)

    def _begin(self) -> None:
        self._items, self._ends = [], []
        blocks, at = self.model.blocks, self._reading.at
        self._start = max(0, len(blocks) - _LAID_OUT)
        if at is not None:
            self._start = min(self._start, self._place_of(at, blocks) or 0)
        self.sync()
        self.refresh()

    def _place_of(self, at: Spot, blocks: Sequence[Block]) -> int | None:
        found = at.find(blocks)
        return at.next_to(blocks) if found is None else found

    def _moved(self) -> None:
        row = round(self.scroll_y)
        if row >= self._height - self.size.height or not self._items:
            self._reading.follow()
        else:
            place = bisect_right(self._ends, row)
            blocks = [item.block for item in self._items]
            self._stay(Spot.of(blocks, place, row - self._top(place)))
        self._hold()

    def _stay(self, at: Spot) -> None:
        says = set(map(id, self.model.saying()))
        rows = sum(len(item.rows) for item in self._items if id(item.block) in says)
        self._reading.stay(at, self.model.blocks, rows)

    def _hold(self) -> None:
        """Keep what is far up as long as somebody reads there."""
        self.model.is_held = not self.follows or self.model is self._session.transcript

    def _put(self) -> None:
        """Go where it is read: the end, or a line of a block."""
        row = end = max(0, self._height - self.size.height)
        if self._reading.at is not None:
            row = min(end, self._row_of(self._reading.at))
        self._puts, self._fitted = True, self.size
        try:
            self._grow_to(Size(self._width, self._height))
            if round(self.scroll_y) != row:
                self.scroll_to(y=row, animate=False, immediate=True)
        finally:
            self._puts = False

    def _row_of(self, at: Spot) -> int:
        """Return the row of a spot, or of what is next to it."""
        blocks = [item.block for item in self._items]
        place = at.find(blocks)
        if place is not None:
            return self._top(place) + min(at.line, max(0, len(self._items[place].rows) - 1))
        if at.after < self.model.since and not self.model.is_whole:
            self._want_page()
        place = at.next_to(blocks)
        return self._height if place is None else self._top(place)

    def _want_page(self) -> None:
        """Want a page of the history, once: what is read was let go."""
        if self._wanted != self.model.since:
            self._wanted = self.model.since
            self.post_message(HistoryWanted())

    def _want_more(self) -> None:
        """Lay out more blocks in front; where there are none, want a page of the history."""
        if self._start and not self._reading.filter.text:
            self.grow()
        elif not self.model.is_whole:
            self.post_message(HistoryWanted())

    def grow(self) -> None:
        """Lay out more blocks in front, and stay at what is seen."""
        if self._reading.filter.text:  # all are laid out that pass
            self.sync()
            return
        self._find_start()
        start, at = max(0, self._start - _LAID_OUT), self._reading.at
        if at is not None:
            start = min(start, self._place_of(at, self.model.blocks) or 0)
        self._items, self._ends, self._start = [], [], start
        self.sync()
        self.refresh()


@dataclass(frozen=True, slots=True)
class Spot:
    """A line of a block; `after` is the number of an event before which it is not."""

    block: Block
    line: int
    after: int

    @classmethod
    def of(cls, blocks: Sequence[Block], place: int, line: int) -> Spot:
        """Return the spot of a line of one of the blocks."""
        block = blocks[place]
        if block.seq is not None:
            return cls(block, line, block.seq - 1)
        before = (one.seq for one in reversed(blocks[:place]) if one.seq is not None)
        return cls(block, line, next(before, 0))

    def find(self, blocks: Sequence[Block]) -> int | None:
        """Return the place of its block; of what was let go and came again, too."""
        for is_it in (lambda one: one is self.block, self._is_again):
            place = next((n for n, one in enumerate(blocks) if is_it(one)), None)
            if place is not None:
                return place
        return None

    def next_to(self, blocks: Sequence[Block]) -> int | None:
        """Return the place of the first block that is not before it, None where all are."""
        later = (n for n, one in enumerate(blocks) if one.seq is None or one.seq > self.after)
        return next(later, None)

    def _is_again(self, block: Block) -> bool:
        """Whether a block is this one, from a page, or once it was said to its end."""
        if type(block) is not type(self.block) or block.seq is None:
            return False
        return block.seq == self.block.seq if self.block.seq else block.seq > self.after


class Filter:
    """Owns the text of a filter, and whether letters are of it."""

    def __init__(self) -> None:
        self.text = ""
        self.is_typed = False

    def __bool__(self) -> bool:
        return self.is_typed or bool(self.text)

    def begin(self) -> None:
        """Take letters for another filter from now on."""
        self.text, self.is_typed = "", True

    def keep(self) -> None:
        """Take no more letters."""
        self.is_typed = False

    def drop(self) -> None:
        """Show all again."""
        self.text, self.is_typed = "", False

    def take(self, event: events.Key, keymap: Keymap) -> bool:
        """Take a key while it is typed; return whether the key was for the filter."""
        if not self.is_typed:
            return False
        means = keymap.means(FILTER, event.key)
        if means == "filter.keep":
            self.keep()
        elif means == "filter.drop":
            self.drop()
        elif event.key == "backspace":
            self.text = self.text[:-1]
        elif event.is_printable and event.character:
            self.text += event.character
        else:
            return False
        event.stop()
        event.prevent_default()
        return True


@dataclass(slots=True)
class Reading:
    """Owns how one transcript is read; `at` is what the first row shows unless it `follows`."""

    follows: bool = True
    at: Spot | None = None
    last: Spot | None = None  # the newest block when it stopped to follow
    streamed: int = 0  # rows of what was not committed then
    opened: dict[int, Block] = field(default_factory=dict)  # unfolded, by identity
    marked: Block | None = None
    filter: Filter = field(default_factory=Filter)

    def follow(self) -> None:
        """Go with the end."""
        self.follows, self.at, self.last = True, None, None

    def stay(self, at: Spot, blocks: Sequence[Block], streamed: int) -> None:
        """Stay at a spot; `blocks` are all that are committed."""
        if self.follows:
            self.last = Spot.of(blocks, len(blocks) - 1, 0) if blocks else None
            self.streamed = streamed
        self.follows, self.at = False, at

    def turn(self, block: Block) -> None:
        """Unfold a block, or fold it."""
        if self.opened.pop(id(block), None) is None:
            self.opened[id(block)] = block

    def newer(self, blocks: Sequence[Block]) -> Sequence[Block]:
        """Return the blocks that came since it stopped to follow, the newest first."""
        last = self.last
        if last is None:
            return blocks[::-1]
        seq = last.block.seq or last.after

        def is_new(block: Block) -> bool:
            return block is not last.block and (block.seq is None or block.seq > seq)

        return list(takewhile(is_new, reversed(blocks)))


@dataclass(frozen=True, slots=True)
class Sieve:
    """What a filter asks for; `unknown` are words for a kind that there is not."""

    words: Sequence[str] = ()
    kinds: frozenset[type[Block]] = frozenset()
    unknown: Sequence[str] = ()

    @property
    def passes_all(self) -> bool:
        """Whether nothing is asked for."""
        return not (self.words or self.kinds or self.unknown)

    def passes(self, block: Block) -> bool:
        """Return whether a block is of one of the kinds, and has all words in its text."""
        if (self.kinds or self.unknown) and type(block) not in self.kinds:
            return False
        if not self.words:
            return True
        text = _text_of(block).casefold()
        return all(word in text for word in self.words)


@lru_cache(maxsize=64)
def read_sieve(text: str) -> Sieve:
    """Return what a filter asks for: `:calls make` for calls in which `make` stands."""
    words: list[str] = []
    kinds: set[type[Block]] = set()
    unknown: list[str] = []
    for word in text.casefold().split():
        if not word.startswith(_OF_KIND):
            words.append(word)
            continue
        named = [kind for name, kind in KINDS.items() if name.startswith(word[1:])]
        kinds.update(named)
        if not named:
            unknown.append(word)
    return Sieve(tuple(words), frozenset(kinds), tuple(unknown))


class Sifting:
    """Sifts one list of blocks again and again: only what has changed is read again."""

    def __init__(self) -> None:
        self._sieve = Sieve()
        self._known: dict[int, tuple[Block, int, bool]] = {}  # by identity: which has it, so lives

    def sift(self, sieve: Sieve, blocks: Iterable[Block]) -> Sequence[Block]:
        """Return the blocks that pass."""
        known = self._known if sieve == self._sieve else {}
        self._sieve, self._known = sieve, {}
        passed: list[Block] = []
        for block in blocks:
            before = known.get(id(block))
            if before is None or before[1] != block.version:
                before = block, block.version, sieve.passes(block)
            self._known[id(block)] = before
            if before[2]:
                passed.append(block)
        return passed


def _text_of(block: Block) -> str:
    match block:
        case Call():
            written = block.output.text if block.is_open else block.result
            return "\n".join((block.tool, block.subject, block.arguments, block.status, written))
        case Plan():
            return "\n".join(f"{status} {text}" for status, text in block.entries)
        case Changed():
            return "\n".join((block.kind, block.path, *block.others))
        case Asked():
            return f"{block.text}\n{block.outcome}"
        case Ending():
            return "\n".join((block.status, block.summary, block.error, block.details))
    return str(getattr(block, "text", ""))
