"""The chosen agent in two lines: who it is, what it does, what it has used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.style import Style

from prsm_core.kit import format_duration
from prsm_tui.model import words
from prsm_tui.model.blocks import Said
from prsm_tui.screen.lines import Line, Lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prsm_tui.model.agents import Agent
    from prsm_tui.model.session import Session
    from prsm_tui.model.silence import Silence

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
