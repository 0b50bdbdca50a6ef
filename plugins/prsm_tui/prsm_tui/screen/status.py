"""The line at the bottom: what waits for the person, what runs, what has just been said."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from rich.style import Style

from prsm_tui.model import words
from prsm_tui.screen.lines import Lines

if TYPE_CHECKING:
    from prsm_tui.keys import Keymap
    from prsm_tui.model.session import Session

_WAITS, _PLAIN = Style(bold=True, reverse=True), Style()


def title_of(session: Session) -> str:
    """Return the title of the terminal."""
    waiting = len(session.requests)
    run = session.run
    state = "" if run is None else f" {run.status}"
    called = f" · {session.called}" if session.called else ""
    return f"({waiting}) prsm needs you{called}" if waiting else f"prsm{state}{called}"


class Status(Lines, can_focus=False):
    """Shows counts; what somebody has to answer comes first."""

    def __init__(self, session: Session, keymap: Keymap) -> None:
        super().__init__(id="status")
        self._requests, self._help, self._last, self._list = (
            keymap.shown(name)
            for name in ("app.requests", "app.help", "transcript.last", "app.sessions")
        )
        self._session = session
        self._counted: tuple[int, str] = (-1, "")

    def sync(self, now: float, *, new: int, elsewhere: str = "") -> None:
        """Show what is; `new` rows of the transcript are below what is seen.

        `elsewhere` says what other sessions do; blank where there are none.
        """
        waiting = len(self._session.requests)
        parts = self._parts(now, waiting, new)
        if elsewhere:
            parts.insert(2, f"elsewhere: {elsewhere} ({self._list})")
        text = " · ".join(part for part in parts if part)
        style = _WAITS if waiting else _PLAIN
        self.provide(1, lambda _index, _width: (text, style))

    def _parts(self, now: float, waiting: int, new: int) -> list[str]:
        session = self._session
        agents = self._agents()
        return [
            f"NEEDS YOU: {waiting} ({self._requests})" if waiting else "",
            f"{self._help} keys",
            f"{new} new row{'s' * (new > 1)} below ({self._last})" if new else "",
            self._run(now),
            f"agents: {agents}" if agents else "",
            f"tokens {words.tokens(session.spent)}, cost {words.cost(session.spent)}",
        ]

    def _run(self, now: float) -> str:
        run = self._session.run
        if run is None:
            return ""
        if not run.is_open or run.started_at is None:
            return f"run {run.status}"
        return f"run {run.status} ({words.since(max(0.0, now - run.started_at))})"

    def _agents(self) -> str:
        """Return how many agents there are of each state; they are counted once one has changed."""
        session = self._session
        if self._counted[0] != session.stirs:
            asking = {request.agent for request in session.requests.values()}
            states = Counter(
                words.state_of(agent, asks=agent.id in asking)[1]
                for agent in session.agents.values()
            )
            told = ", ".join(f"{count} {word}" for word, count in states.items())
            self._counted = session.stirs, told
        return self._counted[1]
