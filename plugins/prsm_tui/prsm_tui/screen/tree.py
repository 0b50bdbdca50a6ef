"""The agents of a session, in the order of their spawning; the first row is the session itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.style import Style

from prsm_core.kit import format_duration
from prsm_tui.keys import TREE, Keymap
from prsm_tui.model import words
from prsm_tui.screen.filtering import Filter
from prsm_tui.screen.keys import bindings
from prsm_tui.screen.lines import Line, Lines
from prsm_tui.screen.messages import AgentChosen, KillWanted
from prsm_tui.screen.wrapping import cut

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events

    from prsm_tui.model.agents import Agent
    from prsm_tui.model.session import Session

_STYLES = {
    "needs you": Style(bold=True, color="yellow"),
    "failed": Style(color="red"),
    "killed": Style(color="red"),
    "works": Style(bold=True),
    "done": Style(dim=True),
}
_LABELS = 10  # cells of a provider and its model, at least
_NAMES = 24  # cells of a name, at most, where there is more to show


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
        """Go to another row."""
        place = self._rows.index(self.chosen) if self.chosen in self._rows else 0
        self._go_to(min(len(self._rows) - 1, max(0, place + step)))

    def action_edge(self, place: int) -> None:
        """Go to the first row or the last."""
        self._go_to(place % len(self._rows))

    def action_open(self) -> None:
        """Open what the cursor is on."""
        self.post_message(AgentChosen(self.chosen, opens=True))

    def action_kill(self) -> None:
        """Ask for the end of the agent that the cursor is on."""
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
        """Return its state, and what it does or waits for."""
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
