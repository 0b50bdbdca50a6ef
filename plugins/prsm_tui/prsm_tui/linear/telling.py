"""What is new in the model, as lines: each thing is told once, and its end when it has ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import takewhile
from typing import TYPE_CHECKING

from prsm_tui.linear.commands import number_of
from prsm_tui.linear.phrases import Phrase, end_of, phrase_of
from prsm_tui.model import words
from prsm_tui.model.blocks import Asked, Block, Call, Ending, Note, Thought

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prsm_tui.model.agents import Agent
    from prsm_tui.model.session import Session


@dataclass(slots=True)
class _Told:
    first: Block | None = None
    last: Block | None = None
    count: int = 0
    open: list[Call | Asked] = field(default_factory=list)  # whose end is to be told
    progress: str = ""


class Teller:
    """Knows what of a session was told, and the numbers by which a person names things."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._told: dict[str | None, _Told] = {}
        self.agents: list[str] = []  # by number, the first is 1
        self.requests: list[str] = []
        self.shown: list[Call | Thought] = []  # what `/show` tells whole
        self._name = session.name
        self._numbers: dict[int, int] = {}  # by the identity of what is shown

    def beginning(self) -> Iterator[str]:
        """Yield what there is already, in short; what was said before counts as told."""
        session = self._session
        run = session.run
        name = f"{session.called}, " if session.called else ""
        yield f"session: {name}{session.id}, mode {session.mode}"
        if run is not None:
            yield f"run: {run.status}: {run.task.splitlines()[0] if run.task else 'no task'}"
        self._keep(None)
        for agent in session.rows():
            self.agents.append(agent.id)
            self._keep(agent.id)
            yield self.agent_line(agent)
        yield from self._requests()

    def news(self) -> Iterator[str]:
        """Yield what was not told yet."""
        session = self._session
        yield from self._of(None)
        if session.name != self._name:
            self._name = session.name
            yield f"session: it is called {session.called}"
        if len(self.agents) < len(session.agents):
            for agent in list(session.agents.values())[len(self.agents) :]:
                self.agents.append(agent.id)
                yield self._spawned(agent)
        for agent_id in self.agents:
            yield from self._of(agent_id)
        yield from self._requests()

    def await_page(self, agent: str) -> None:
        """Note in front of what a page will stand; what was told before that may be gone."""
        blocks = self._session.agents[agent].transcript.blocks
        self._told_of(agent).first = blocks[0] if blocks else None

    def history(self, agent: str) -> Iterator[str]:
        """Yield what has come in front of what was told of an agent."""
        told, blocks = self._told_of(agent), self._session.agents[agent].transcript.blocks
        end = next((n for n, block in enumerate(blocks) if block is told.first), len(blocks))
        label = self.label(agent)
        if not end:
            yield f"history: {label} has said nothing before that"
            return
        yield f"history: {end} entries of {label} from before"
        for block in blocks[:end]:
            yield from self._block(agent, block)
            if isinstance(block, Call) and not block.is_open:
                yield self._end_of_call(agent, block)
        yield f"history: end of what {label} said before"
        told.first, told.count = blocks[0], len(blocks)
        if told.last is None:
            told.last = blocks[-1]

    def label(self, agent: str | None) -> str:
        """Return what lines of an agent begin with; one of several of a name has its number."""
        known = self._session.agents.get(agent or "")
        if known is None:
            return "session"
        same = sum(other.name == known.name for other in self._session.agents.values())
        number = f" (agent {self.agents.index(known.id) + 1})" if same > 1 else ""
        return f"{known.name}{number}"

    def agent_line(self, agent: Agent) -> str:
        """Return an agent in one line, with its number."""
        number = self.agents.index(agent.id) + 1
        _, word = words.state_of(agent, asks=self._session.asks(agent.id))
        tools = "".join(f", runs {tool}" for tool, _ in agent.tools.values())
        waits = f", for {agent.waiting_on}" if agent.waiting_on and agent.is_live else ""
        tokens, cost = words.tokens(agent.spent_below), words.cost(agent.spent_below)
        used = f"tokens {_in_words(tokens)}, cost {_in_words(cost)}"
        path = " / ".join(self._session.path_of(agent.id))
        return f"agent {number}: {path}: {word}{waits}{tools}, {agent.role}, {agent.label}, {used}"

    def number_of(self, request: str) -> int:
        """Return the number of a request, which it keeps."""
        return number_of(request, self.requests)

    def _spawned(self, agent: Agent) -> str:
        number = self.agents.index(agent.id) + 1
        parent = self._session.agents.get(agent.parent or "")
        below = f" of {self.label(parent.id)}" if parent is not None else ""
        task = f": {agent.task}" if agent.task else ""
        what = f"agent {number}, {agent.role}{below}, {agent.label}"
        return f"{self.label(agent.id)} begins as {what}{task}"

    def _requests(self) -> Iterator[str]:
        waiting = self._session.requests
        fresh = [one for one in waiting.values() if one.id not in self.requests]
        for request in fresh:
            number = self.number_of(request.id)
            yield f"needs you: request {number}: {self.label(request.agent)} asks: {request.head}"
        if fresh:
            wait = "1 waits" if len(waiting) == 1 else f"{len(waiting)} wait"
            yield f"needs you: {wait}; type /needs"

    def _of(self, agent: str | None) -> Iterator[str]:
        told = self._told_of(agent)
        if told.open:
            yield from self._ended(agent, told)
        known = self._session.agents.get(agent or "")
        transcript = self._session.transcript_of(agent)
        if len(transcript.blocks) != told.count:
            for block in _behind(transcript.blocks, told.last):
                if not self._is_silent(agent, block):
                    yield from self._block(agent, block)
            told.first = told.first or transcript.blocks[0]
            told.last, told.count = transcript.blocks[-1], len(transcript.blocks)
        if known is not None and known.progress != told.progress:
            told.progress = known.progress
            yield f"{self.label(agent)}: progress: {known.progress}"

    def _is_silent(self, agent: str | None, block: Block) -> bool:
        """Return whether a block is told by something else already."""
        if isinstance(block, Asked):  # as what needs the person
            self._told_of(agent).open.append(block)
            return True
        # What no event tells of is an answer to what the person did, and told as that; a run's
        # ending is told at the session.
        is_answer = isinstance(block, Note) and block.seq is None
        return is_answer or (isinstance(block, Ending) and agent is not None)

    def _block(self, agent: str | None, block: Block) -> Iterator[str]:
        phrase = phrase_of(block)
        if isinstance(block, Call | Thought):
            self.shown.append(block)
            self._numbers[id(block)] = len(self.shown)
            if isinstance(block, Call):
                phrase = Phrase(f"{phrase.verb}, number {len(self.shown)}", phrase.lines)
                if block.is_open:
                    self._told_of(agent).open.append(block)
        label = self.label(agent)
        if not phrase.lines:
            yield f"{label}{phrase.verb}"
        for number, line in enumerate(phrase.lines):
            yield f"{label}{'' if number else phrase.verb}: {line}"

    def _ended(self, agent: str | None, told: _Told) -> Iterator[str]:
        for block in list(told.open):
            if isinstance(block, Call) and not block.is_open:
                told.open.remove(block)
                yield self._end_of_call(agent, block)
            elif isinstance(block, Asked) and block.outcome:
                told.open.remove(block)
                number = self.number_of(block.request)
                yield f"{self.label(agent)}: request {number} has ended: {block.outcome}"

    def _end_of_call(self, agent: str | None, call: Call) -> str:
        number = self._numbers[id(call)]
        return f"{self.label(agent)}: {call.tool or 'a tool'}, number {number}: {end_of(call)}"

    def _keep(self, agent: str | None) -> None:
        told, blocks = self._told_of(agent), self._session.transcript_of(agent).blocks
        told.count = len(blocks)
        told.first, told.last = (blocks[0], blocks[-1]) if blocks else (None, None)

    def _told_of(self, agent: str | None) -> _Told:
        return self._told.setdefault(agent, _Told())


def _in_words(amount: str) -> str:
    """Return an amount without signs that a voice leaves out."""
    if amount == "?":
        return "unknown"
    return amount.replace("+?", " and more, unknown").replace("~", "about ")


def _behind(blocks: Sequence[Block], last: Block | None) -> Sequence[Block]:
    fresh = list(takewhile(lambda block: block is not last, reversed(blocks)))
    return fresh[::-1]
