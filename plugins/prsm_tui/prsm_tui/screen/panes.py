"""The panes of one session: the tree, and beside it the chosen agent and where one types.

Where there is no room for both, one is seen: the tree while it has the focus.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from rich.style import Style
from textual.containers import Horizontal, Vertical
from textual.screen import Screen
from textual.widgets import Static

from prsm_core.kit import format_duration
from prsm_tui.keys import TREE, Keymap
from prsm_tui.model import words
from prsm_tui.model.blocks import Said
from prsm_tui.model.session import Session, Silence
from prsm_tui.screen.keys import binding, bindings
from prsm_tui.screen.lines import Line, Lines
from prsm_tui.screen.messages import AgentChosen, KillWanted, SteppedOut
from prsm_tui.screen.prompt import Prompt
from prsm_tui.screen.status import Status
from prsm_tui.screen.transcript import Filter, Transcript
from prsm_tui.screen.wrapping import cut

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from textual import events
    from textual.app import ComposeResult
    from textual.binding import BindingType

    from prsm_tui.model.agents import Agent

WIDE = 100  # columns from which on both are seen
_LOW = 14  # rows below which the head of the agent is left out
_PANES = ("prompt", "tree", "transcript")

_STYLES = {
    "needs you": Style(bold=True, color="yellow"),
    "failed": Style(color="red"),
    "killed": Style(color="red"),
    "works": Style(bold=True),
    "done": Style(dim=True),
}
_LABELS = 10  # cells of a provider and its model, at least
_NAMES = 24  # cells of a name, at most, where there is more to show


class Across(Horizontal):
    """Holds panes beside each other, and draws nothing by itself: each frame asks all of them."""

    BLANK = True


class Down(Vertical):
    """Holds widgets below each other, and draws nothing by itself."""

    BLANK = True


class Panes(Screen[None]):
    """Lays out the widgets of a session, and moves the focus among them."""

    BLANK = True
    AUTO_FOCUS = "#prompt"
    BINDINGS: ClassVar[list[BindingType]] = [
        binding("app.next", "next(1)"),
        binding("app.previous", "next(-1)"),
        binding("app.back", "back"),
    ]
    DEFAULT_CSS = """
    Panes { layout: vertical; }
    Panes #panes { height: 1fr; }
    Panes #left { width: 40%; max-width: 72; }
    Panes.-narrow #left { width: 100%; max-width: 100%; }
    Panes #filter, Panes #sifted { height: 1; text-style: reverse; }
    Panes #tree { height: 1fr; border-right: solid $foreground 30%; }
    Panes.-narrow #tree { border-right: none; }
    Panes #right { width: 1fr; }
    Panes #head { height: 2; }
    Panes #transcript { height: 1fr; }
    Panes #told { height: auto; max-height: 3; }
    Panes #to { height: 1; text-style: bold; border-top: none; }
    Panes #prompt { height: auto; min-height: 1; max-height: 6; border: none; padding: 0; }
    Panes #status { height: 1; }
    Panes #tree:focus, Panes #transcript:focus { background-tint: $foreground 4%; }
    """

    def __init__(self, session: Session, keymap: Keymap) -> None:
        super().__init__()
        self.agents = Tree(session, keymap)
        self.silence = Silence(session)
        self.head = Head(session, self.silence)
        self.transcript = Transcript(session, keymap)
        self.prompt = Prompt(keymap)
        self.status = Status(session, keymap)
        self.to = Static(id="to", markup=False)
        self.told = Static(id="told", markup=False)
        self.filtered = Static(id="filter", markup=False)
        self.sifted = Static(id="sifted", markup=False)
        self._shown = ("", "", "")
        self.left = Down(self.filtered, self.agents, id="left")
        right = self.head, self.sifted, self.transcript, self.told, self.to, self.prompt
        self.right = Down(*right, id="right")

    def compose(self) -> ComposeResult:
        yield Across(self.left, self.right, id="panes")
        yield self.status

    def on_mount(self) -> None:
        for line in (self.told, self.filtered, self.sifted):
            line.display = False

    def on_resize(self, event: events.Resize) -> None:
        self.head.display = event.size.height >= _LOW
        self._arrange(event.size.width >= WIDE)

    def show_lines(self, to: str, filtered: str, sifted: str) -> None:
        """Show to whom one types, and filters: of the tree, of the transcript.

        What is as before costs nothing.
        """
        if (to, filtered, sifted) != self._shown:
            self._shown = to, filtered, sifted
            self.to.update(to)
            for line, text in ((self.filtered, filtered), (self.sifted, sifted)):
                line.update(text)
                line.display = bool(text)

    def go_to(self, pane: str) -> None:
        """Give a pane the focus, and show it."""
        if self.size.width < WIDE:
            self.left.display, self.right.display = pane == "tree", pane != "tree"
        self.set_focus(self.query_one(f"#{pane}"), scroll_visible=False)

    def action_next(self, step: int) -> None:
        place = _PANES.index(self.pane)
        self.go_to(_PANES[(place + step) % len(_PANES)])

    def action_back(self) -> None:
        """Go one step back: from the prompt to the transcript, from there to the tree, and out."""
        if self.pane == "tree":
            if self.agents.filter:
                self.agents.clear_filter()
            else:
                self.post_message(SteppedOut())
            return
        if self.pane == "transcript" and self.transcript.clear_filter():
            return
        self.go_to("transcript" if self.pane == "prompt" else "tree")

    @property
    def pane(self) -> str:
        """Which pane has the focus."""
        name = self.focused.id if self.focused is not None else None
        return name if name in _PANES else "prompt"

    @property
    def is_filtering(self) -> bool:
        """Whether letters are of a filter."""
        return self.agents.filter.is_typed or self.transcript.is_filtering

    def _arrange(self, is_wide: bool) -> None:
        self.set_class(not is_wide, "-narrow")
        self.left.display = is_wide or self.pane == "tree"
        self.right.display = is_wide or self.pane != "tree"


_SILENT_SECONDS = 10.0
_BOLD, _DIM = Style(bold=True), Style(dim=True)


class Head(Lines, can_focus=False):
    """Shows the agent above its transcript."""

    def __init__(self, session: Session, silence: Silence) -> None:
        super().__init__(id="head")
        self._session = session
        self._all = silence
        self._lines: Sequence[Line] = ()

    def sync(self, chosen: str | None, now: float) -> None:
        """Show an agent; None is the session."""
        agent = self._session.agents.get(chosen or "")
        self._lines = list(self._of_session() if agent is None else self._of_agent(agent, now))
        self.provide(len(self._lines), lambda index, _width: self._lines[index])

    def _of_session(self) -> Iterator[Line]:
        session = self._session
        run = session.run
        state = "no run yet: type a task" if run is None else f"run {run.status}: {run.task}"
        yield state.replace("\n", " "), _BOLD
        spent = session.spent
        used = f"tokens {words.tokens(spent)} · cost {words.cost(spent)}"
        name = f"{session.name} · " if session.name else ""
        yield f"{name}session {session.id} · mode {session.mode} · {used}", _DIM

    def _of_agent(self, agent: Agent, now: float) -> Iterator[Line]:
        session = self._session
        path = " / ".join(session.path_of(agent.id))
        _, word = words.state_of(agent, asks=session.asks(agent.id))
        yield f"{path} · {word} · {agent.role} · {agent.models} · mode {agent.mode}", _BOLD
        own, below = agent.spent, agent.spent_below
        parts = [
            words.since(agent.elapsed(now)),
            *self._thinking(agent, now),
            f"tokens {words.tokens(own)} (and below: {words.tokens(below)})",
            f"cost {words.cost(own)} (and below: {words.cost(below)})",
            f"context {words.window(agent)}",
            *self._more(agent, now),
        ]
        yield " · ".join(parts), _DIM

    def _thinks(self, agent: Agent) -> bool:
        """Whether an agent thinks: it runs, and does nothing that is to be seen."""
        waits = agent.waiting_on or agent.retry_at is not None or self._session.asks(agent.id)
        writes = any(isinstance(block, Said) for block in agent.transcript.saying())
        return agent.state == "running" and not (agent.tools or waits or writes)

    def _thinking(self, agent: Agent, now: float) -> Iterator[str]:
        silent = agent.silent(now)
        if silent is not None and silent >= 1 and self._thinks(agent):
            hint = ", no events" if self._all.is_long else ""
            yield f"Thinking... ({format_duration(silent)}{hint})"

    def _more(self, agent: Agent, now: float) -> Iterator[str]:
        if agent.waiting_on and agent.is_live:
            yield f"waits for {agent.waiting_on}"
        for tool, since in agent.tools.values():
            yield f"{tool} since {format_duration(max(0.0, now - since))}"
        silent = agent.silent(now)
        if silent is not None and silent >= _SILENT_SECONDS and not self._thinks(agent):
            yield f"silent for {format_duration(silent)}"
        if agent.prompts:
            yield f"prompts that it has not read: {agent.prompts}"
        if agent.progress:
            yield agent.progress
        if agent.evidence:
            yield f"evidence: {agent.evidence}"


class Tree(Lines):
    """Posts which agent the cursor is on; the cursor stays on its agent whatever comes."""

    BINDINGS = bindings(TREE)

    def __init__(self, session: Session, keymap: Keymap) -> None:
        super().__init__(id="tree")
        self._keymap = keymap
        self._session = session
        self._now = 0.0
        self._rows: Sequence[str | None] = (None,)
        self._known: tuple[int, str] = (-1, "")
        self.chosen: str | None = None
        self.filter = Filter()

    def sync(self, now: float) -> None:
        """Follow the model; `now` in Unix seconds."""
        self._now = now
        known = len(self._session.agents), self.filter.text
        if known != self._known or self.filter:
            self._known = known
            self._find_rows()
        self.provide(len(self._rows), self._line_of)

    def choose(self, agent: str | None) -> None:
        """Put the cursor on an agent; None is the session."""
        self.chosen = agent
        if agent not in self._rows:
            self.filter.drop()
            self._find_rows()
            self.provide(len(self._rows), self._line_of)
        self.put_cursor(self._rows.index(agent) if agent in self._rows else 0)

    def action_move(self, step: int) -> None:
        place = self._rows.index(self.chosen) if self.chosen in self._rows else 0
        self._go_to(min(len(self._rows) - 1, max(0, place + step)))

    def action_edge(self, place: int) -> None:
        self._go_to(place % len(self._rows))

    def action_open(self) -> None:
        self.post_message(AgentChosen(self.chosen, opens=True))

    def action_kill(self) -> None:
        if self.chosen is not None:
            self.post_message(KillWanted(self.chosen))

    def begin_filter(self) -> None:
        """Take letters for a filter from now on."""
        self.filter.begin()
        self.sync(self._now)

    def clear_filter(self) -> None:
        """Show all agents again."""
        self.filter.drop()
        self.sync(self._now)

    def on_key(self, event: events.Key) -> None:
        """While a filter is typed, letters are of it."""
        if self.filter.take(event, self._keymap):
            self.sync(self._now)

    def on_click(self, event: events.Click) -> None:
        """Go to the row that was clicked; a second click opens it."""
        place = round(self.scroll_y) + event.y
        if place < len(self._rows):
            self._go_to(place)
            if event.chain > 1:
                self.action_open()

    @property
    def title(self) -> str:
        """What is above the rows: the filter, where there is one."""
        return f"filter: {self.filter.text}" if self.filter else ""

    def _go_to(self, place: int) -> None:
        self.chosen = self._rows[place]
        self.put_cursor(place)
        self.post_message(AgentChosen(self.chosen))

    def _find_rows(self) -> None:
        """Find the rows again; what the cursor is on stays where it is on the screen."""
        before = self.cursor
        wanted = self.filter.text.lower()
        self._rows = [
            None,
            *(agent.id for agent in self._session.rows() if self._fits(agent, wanted)),
        ]
        if self.chosen in self._rows:
            self.cursor = self._rows.index(self.chosen)
            if 0 <= before != self.cursor and self.scroll_y:
                self.scroll_to(y=self.scroll_y + self.cursor - before, animate=False)

    def _fits(self, agent: Agent, wanted: str) -> bool:
        _, word = words.state_of(agent, asks=self._session.asks(agent.id))
        return not wanted or any(
            wanted in text.lower() for text in (agent.name, word, agent.label, agent.role)
        )

    def _line_of(self, index: int, width: int) -> Line:
        agent_id = self._rows[index]
        if agent_id is None:
            return self._session_line(), Style(dim=True)
        return self._agent_line(self._session.agents[agent_id], width)

    def _session_line(self) -> str:
        run = self._session.run
        state = "no run yet" if run is None else f"run {run.status}"
        called = f" · {self._session.called}" if self._session.called else ""
        return f"# session: {state}{called}"

    def _agent_line(self, agent: Agent, width: int) -> Line:
        sign, word = words.state_of(agent, asks=self._session.asks(agent.id))
        style = _STYLES.get(word, Style())
        indent = "  " * min(agent.depth, 8)
        name = f"{indent}{sign} {agent.name}"
        does = self._does(agent, word)
        used = f"{words.tokens(agent.spent_below)} {words.cost(agent.spent_below)}"
        elapsed = agent.elapsed(self._now)
        parts = [
            f"{words.since(elapsed):>7}" if width >= 50 else "",
            f"{used:>14}" if width >= 40 else "",
        ]
        right = "  ".join(filter(None, parts))
        # Its state comes before its model: of that there is as much as there is room.
        whole = cell_len(cut(name, len(indent) + _NAMES)) + cell_len(does) + 5
        label = width - cell_len(right) - whole
        if width >= 60 and label >= _LABELS:
            right = f"{cut(agent.label, label)}  {right}"
        room = max(8, width - cell_len(right) - 1)
        name = cut(name, max(len(indent) + 8, min(room, len(indent) + _NAMES)))
        left = cut(f"{name}  {does}", room)
        return f"{left}{' ' * (room - cell_len(left))} {right}", style

    def _does(self, agent: Agent, word: str) -> str:
        if not agent.is_live:
            return f"{word} ({agent.evidence})" if agent.evidence else word
        if word == "needs you":
            return word
        if agent.waiting_on:
            return f"waits for {agent.waiting_on}"
        if agent.state.startswith("waiting"):
            return word
        if agent.retry_at is not None and agent.retry_at > self._now:
            return f"tries again in {format_duration(agent.retry_at - self._now)}"
        if agent.tools:
            tool, since = min(agent.tools.values(), key=lambda call: call[1])
            return f"{tool} {format_duration(max(0.0, self._now - since))}"
        return word
