"""The list of sessions: three groups, and of the chosen one what it did last and what it asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.style import Style
from textual.containers import Container, Vertical
from textual.screen import Screen
from textual.widgets import Static

from prsm_tui.keys import FILTER, SESSIONS, Keymap
from prsm_tui.model import words
from prsm_tui.model.sessions import DONE, NEEDS_YOU, WORKS, Listed
from prsm_tui.screen.keys import bindings
from prsm_tui.screen.lines import Line, Lines
from prsm_tui.screen.messages import SessionPassed, SessionWanted
from prsm_tui.screen.wrapping import cut, wrap_all

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events
    from textual.app import ComposeResult

    from prsm_tui.model.sessions import Line as Shown
    from prsm_tui.model.sessions import Sessions

WIDE = 100  # columns from which on the two are beside each other
_PLAIN, _BOLD, _DIM = Style(), Style(bold=True), Style(dim=True)
_STYLES = {NEEDS_YOU: Style(bold=True, color="yellow"), WORKS: _BOLD, DONE: _PLAIN}
_FAILED = Style(color="red")
_FOLDER = 20  # cells of a folder's name, at most


class SessionList(Lines):
    """The rows; it posts what a person wants done with the session that the cursor is on."""

    BINDINGS = bindings(SESSIONS)

    def __init__(self, sessions: Sessions, keymap: Keymap) -> None:
        super().__init__(id="sessions")
        self._sessions = sessions
        self._keymap = keymap
        self._now = 0.0
        self._rows: Sequence[Shown] = ()
        self.is_filtering = False

    def sync(self, now: float) -> None:
        """Follow the model; `now` in Unix seconds."""
        self._now = now
        self._rows = self._sessions.lines()
        self.provide(len(self._rows), self._line_of)
        chosen = self._sessions.chosen
        places = (
            place
            for place, row in enumerate(self._rows)
            if isinstance(row, Listed) and row.id == chosen
        )
        place = next(places, -1)
        if place != self.cursor:
            self.put_cursor(place)
            if place == 1 and self.scroll_y:  # the head of the first group is seen with it
                self.scroll_to(y=0, animate=False, immediate=True)

    def action_move(self, step: int) -> None:
        self._sessions.move(step)
        self._passed()

    def action_edge(self, place: int) -> None:
        self._sessions.edge(place)
        self._passed()

    def action_want(self, what: str) -> None:
        if self._sessions.find(self._sessions.chosen) is not None:
            self.post_message(SessionWanted(self._sessions.chosen or "", what))

    def begin_filter(self) -> None:
        """Take letters for a filter from now on."""
        self.is_filtering = True
        self.post_message(SessionPassed())

    def on_key(self, event: events.Key) -> None:
        """While a filter is typed, letters are of it; with one, a step back takes it away."""
        means = self._keymap.means(FILTER, event.key)
        if not self.is_filtering:
            if means == "filter.drop" and self._sessions.filter:
                self._sessions.set_filter("")
                self._passed()
                event.stop()
            return
        if means:
            self.is_filtering = False
            if means == "filter.drop":
                self._sessions.set_filter("")
        elif event.key == "backspace":
            self._sessions.set_filter(self._sessions.filter[:-1])
        elif event.is_printable and event.character:
            self._sessions.set_filter(self._sessions.filter + event.character)
        else:
            return
        event.stop()
        event.prevent_default()
        self._passed()

    def on_click(self, event: events.Click) -> None:
        """Go to the session that was clicked; a second click opens it."""
        place = round(self.scroll_y) + event.y
        row = self._rows[place] if place < len(self._rows) else None
        if isinstance(row, Listed):
            self._sessions.chosen = row.id
            self._passed()
            if event.chain > 1:
                self.action_want("open")

    def _passed(self) -> None:
        self.sync(self._now)
        self.post_message(SessionPassed())

    def _line_of(self, index: int, width: int) -> Line:
        row = self._rows[index]
        if isinstance(row, str):
            return row, _DIM
        style = _FAILED if row.word in {"failed", "killed"} else _STYLES[row.group]
        right = f"{row.word:>13}  {words.age(self._now - row.started_at):>4}"
        if width >= 64:
            folder = cut(row.workspace.rstrip("/").rpartition("/")[2], _FOLDER)
            right = f"{folder:>{_FOLDER}}  {right}"
        room = max(8, width - cell_len(right) - 2)
        fork = "fork of " if row.origin else ""
        left = cut(f"{row.sign} {fork}{row.name}", room)
        return f"{left}{' ' * (room - cell_len(left))}  {right}", style


class SessionsScreen(Screen[None]):
    """Lays out the list, and what the chosen session did last."""

    AUTO_FOCUS = "#sessions"
    DEFAULT_CSS = """
    SessionsScreen #head { height: 1; text-style: reverse; }
    SessionsScreen #both { layout: vertical; height: 1fr; }
    SessionsScreen #sessions { height: 3fr; }
    SessionsScreen #beside { height: 2fr; border-top: solid $foreground 30%; }
    SessionsScreen #about { height: auto; max-height: 3; text-style: bold; }
    SessionsScreen #peek { height: 1fr; }
    SessionsScreen #told { height: auto; max-height: 3; }
    SessionsScreen #keys { height: 1; }
    SessionsScreen.-wide #both { layout: horizontal; }
    SessionsScreen.-wide #sessions { width: 3fr; height: 100%; }
    SessionsScreen.-wide #beside {
        width: 2fr; height: 100%; border-top: none; border-left: solid $foreground 30%;
        padding: 0 1;
    }
    """

    def __init__(self, sessions: Sessions, keymap: Keymap) -> None:
        super().__init__()
        self._sessions = sessions
        self._keymap = keymap
        self.rows = SessionList(sessions, keymap)
        self._head = Static(id="head", markup=False)
        self._about = Static(id="about", markup=False)
        self._peek = Lines(id="peek")
        self._told = Static(id="told", markup=False)
        self._keys = Static(self._hints(), id="keys", markup=False)
        self._shown = ("", "")

    def compose(self) -> ComposeResult:
        yield self._head
        yield Container(self.rows, Vertical(self._about, self._peek, id="beside"), id="both")
        yield self._told
        yield self._keys

    def on_mount(self) -> None:
        """Begin without a message; the peek is only looked at."""
        self._peek.can_focus = False
        self._told.display = False

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.width >= WIDE, "-wide")

    def say(self, text: str) -> None:
        """Say what became of something."""
        self._told.update(text)
        self._told.display = bool(text)

    def sync(self, now: float, problem: str) -> None:
        """Follow the model."""
        if not self.is_mounted:
            return
        self.rows.sync(now)
        chosen = self._sessions.find(self._sessions.chosen)
        about = "" if chosen is None else f"{chosen.task or chosen.name}\n{chosen.workspace}"
        head = problem or self._title()
        if (head, about) != self._shown:
            self._shown = head, about
            self._head.update(head)
            self._about.update(about)
        width = max(10, self._peek.size.width or self.app.size.width)
        lines = [row for line in self._sessions.peek() for row in wrap_all(line, width)]
        height = self._peek.size.height
        seen = lines[-height:] if height and not (chosen and chosen.waits) else lines
        self._peek.provide(len(seen), lambda index, _width: (seen[index], _PLAIN))

    def _title(self) -> str:
        sessions = self._sessions
        if self.rows.is_filtering or sessions.filter:
            sign = "_" if self.rows.is_filtering else ""
            return f"sessions with: {sessions.filter}{sign}"
        if not sessions.is_known:
            return "sessions: looking"
        new = self._keymap.shown("sessions.new")
        none = f"sessions: none yet; {new} begins one"
        return f"sessions: {len(sessions.listed)}" if sessions.listed else none

    def _hints(self) -> str:
        names = ("open", "answer", "new", "resume", "rename", "delete", "filter", "help")
        keys = {name: self._keymap.first(f"sessions.{name}") for name in names}
        return "  ".join(f"{key} {name}" for name, key in keys.items() if key)
