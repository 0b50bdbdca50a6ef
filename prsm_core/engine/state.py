"""Live agents: what the engine holds of each one beside the ledger.

`is_over` says whether an agent is over; `Life` says it of one life, which also ends when the agent
is restarted or the engine closes. Two questions look alike. `state.is_terminal`: is its end
decided? Check this before ending an agent or writing for it. `has_ended`: is its end committed?
Check this before acting on it, since what is not committed has not happened. `is_condemned` is only
an intention: somebody is about to end the agent.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from enum import StrEnum
from itertools import count
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from prsm_core.domain.agents import AgentState
from prsm_core.domain.messages import MessageType
from prsm_core.domain.notes import NO_NOTES
from prsm_core.domain.record import Record
from prsm_core.domain.steps import Step
from prsm_core.domain.writes import AgentNoted, ThreadKept
from prsm_core.errors import MessageRoutingError
from prsm_core.kit.quotation import quote_word
from prsm_core.messaging.waits import ANYONE

Leases = tuple[tuple[str, str], ...]
"""Folders, each with the name of the agent that has it."""
PROMPTING = frozenset(
    {MessageType.QUESTION, MessageType.TASK_RESULT, MessageType.USER_PROMPT, MessageType.PEER}
)
MESSAGES_IN_A_PROMPT = 100
NEVER = -1  # the number of an event before all others
_NOBODY: Mapping[str, AgentRecord] = MappingProxyType({})

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from prsm_core.domain.agents import AgentDescriptor, AgentResult
    from prsm_core.domain.messages import RoutedMessage
    from prsm_core.domain.notes import Notes
    from prsm_core.domain.steps import Write
    from prsm_core.domain.usage import Spent
    from prsm_core.permissions.skills import Skill


def told_region(region: Sequence[str]) -> str:
    """Return a region in words for an agent."""
    return ", ".join(map(quote_word, region)) or "nothing"


class Level(StrEnum):
    """How far a result was checked."""

    CLAIMED = "claimed"  # the agent says so
    CHECKED = "checked"  # its files are there and new, a check has succeeded since, none is red
    VERIFIED = "verified"  # … and the required gates passed


class Evidence(Record, frozen=True, kw_only=True):
    """What supports a result, its unconfirmed gaps, and what others did for it."""

    level: Level = Level.CLAIMED
    gaps: tuple[str, ...] = ()
    by: tuple[str, ...] = ()

    def on(self, result: AgentResult) -> AgentResult:
        """Return a result with this evidence."""
        told = {"evidence_gaps": self.gaps, "evidence_by": self.by}
        return replace(result, evidence=self.level.value, **told)


class OpenQuestion(Struct):
    """A question that another agent asked and still waits for."""

    message: RoutedMessage
    delivered: bool = False  # the model has seen it


def is_peer(message: RoutedMessage) -> bool:
    """Whether a message comes from an agent that need not be parent or child."""
    return message.type is MessageType.PEER


class UsedByTurn(Record, frozen=True):
    """A turn's usage so far, which no row has yet."""

    agent_id: str
    turn_id: str
    spent: Spent


class AgentRecord(Struct, eq=False):
    """One agent: its descriptor, its place in the tree, what it waits for and owes."""

    descriptor: AgentDescriptor
    children: list[str] = []
    live_children: dict[str, AgentRecord] = {}
    waiting_on: str | None = None
    result: AgentResult | None = None  # final, once the state is terminal
    has_ended: bool = False  # its end is committed: before, it is no news to anybody else
    claimed_result: AgentResult | None = None  # task_complete said so, children still live
    resume_token: str | None = None
    questions: dict[str, OpenQuestion] = {}  # by correlation id
    progress: dict[str, Mapping[str, Any]] = {}  # latest per child
    context_used: int | None = None  # tokens of the vendor's thread, told or counted; None: unknown
    context_window: int | None = None  # of its model in tokens, as its vendor has told it
    next_turn: int = 1
    head_turn_id: str | None = None
    reasoning_used: float = 0.0  # seconds, this incarnation
    notes: Notes = NO_NOTES  # what else is known of this incarnation, and outlives the engine
    is_condemned: bool = False  # it fails, or others have decided so: it is about to end
    takes_messages: bool = False  # its tools take what others write; it is not prompted with that
    sends_messages: bool = False  # its tools write to agents that are no kin of it
    peers: Mapping[str, AgentRecord] = _NOBODY  # who may write to any other agent; see `Peers`
    has_profile: bool = False  # it is one that the settings describe, and no other's to use again
    wants_tree: bool = False  # it is to be born in a worktree of its own
    stand_in: str = ""  # what is told where its model is not the one that was named for its task
    started_at: float | None = None  # monotonic; None before its first life
    # What it was told of the models that its children may have; None: what its prompt says of them.
    team: str | None = None
    team_source: tuple[object, AgentDescriptor] | None = None  # what `team` was made of
    skills: tuple[Skill, ...] | None = None  # … and of the skills that there are
    told: str | None = None  # the message that its parent was last told its result by
    birth: int = 0  # its number among all agents
    riders: tuple[Write, ...] = ()  # what its next step carries besides, one of each kind
    agent_id: str = ""  # this one and the next two begin as the descriptor says
    incarnation: int = 0  # which life of the agent this is
    # As of now, set by `AgentSteps.move` alone; the descriptor's is that of its beginning.
    state: AgentState = AgentState.PENDING
    _steps: int = 0
    _ended: asyncio.Future[None] | None = None  # once somebody waits for the end

    def __post_init__(self) -> None:
        self.agent_id = self.descriptor.agent_id
        self.incarnation = self.descriptor.incarnation
        self.state = self.descriptor.state

    @property
    def label(self) -> str:
        """The agent's ledger session, `<session>/<alias>`."""
        return f"{self.descriptor.session_id}/{self.descriptor.name}"

    @property
    def is_over(self) -> bool:
        """Whether the agent does nothing more: it ends, or only waits for its children's end."""
        return self.state.is_terminal or self.claimed_result is not None

    def next_step_id(self) -> str:
        """Return a new step id, `agent:incarnation:n`."""
        self._steps += 1
        return f"{self.agent_id}:{self.incarnation}:{self._steps}"

    def end(self) -> None:
        """Note that the agent's end is committed, and release whoever waits for it."""
        self.has_ended = True
        if self._ended is not None:
            self._ended.set_result(None)

    def ended(self) -> asyncio.Future[None]:
        """Return a future of the committed end. All share it, so nobody may cancel it."""
        if self._ended is None:
            self._ended = asyncio.get_running_loop().create_future()
            if self.has_ended:
                self._ended.set_result(None)
        return self._ended

    def is_prompted_by(self, message: RoutedMessage) -> bool:
        """Whether a message begins a turn and still matters: a question does while it is open."""
        if message.type is MessageType.PEER and self.takes_messages:
            return False
        if message.type is MessageType.QUESTION:
            return message.correlation_id in self.questions
        return message.type in PROMPTING

    def senders(self) -> tuple[str, ...]:
        """Return who may prompt it: live children, the parent, ANYONE if all may write."""
        parent, children = self.descriptor.parent_id, tuple(self.live_children)
        kin = children if parent is None else (*children, parent)
        return (*kin, ANYONE) if self.peers and not self.takes_messages else kin

    def asked(self, question: RoutedMessage, *, delivered: bool = False) -> None:
        """Owe the answer to a question."""
        self.questions[question.correlation_id or ""] = OpenQuestion(question, delivered)

    def settled(self, correlation_id: str | None) -> None:
        """Owe no answer to a question any more."""
        self.questions.pop(correlation_id or "", None)

    def heard_of(self, child: str, said: Mapping[str, Any]) -> None:
        """Keep a child's latest progress."""
        self.progress[child] = said

    def note_delivered(self, message: RoutedMessage, *, delivered: bool = True) -> None:
        """Note whether a live session was shown a question, if its asker still waits."""
        question = self.questions.get(message.correlation_id or "")
        if question is not None:
            question.delivered = delivered

    def next_reminder(self) -> OpenQuestion | None:
        """Return a question to show again until `was_reminded`, if there is one."""
        for about in self.notes.reminders:
            question = self.questions.get(about)
            if question is not None:
                return question
        if self.notes.reminders:  # nobody waits for an answer to those any more
            self.note(reminders=())
        return None

    def was_reminded(self, about: str | None) -> None:
        """Note, in the next step, that a question is shown again by it."""
        self.note(reminders=tuple(one for one in self.notes.reminders if one != about))

    def switch_model(self, provider: str, model: str, reasoning_effort: str | None) -> None:
        """Use another model, which knows nothing of the thread so far."""
        self.descriptor = replace(
            self.descriptor, provider=provider, model=model, reasoning_effort=reasoning_effort
        )
        self.resume_token = self.context_used = self.context_window = None

    def ride(self, *writes: Write) -> None:
        """Add writes to the next step that are worth none alone; newer replace older."""
        if not writes:
            return
        kinds = {type(write) for write in writes}
        self.riders = (*(one for one in self.riders if type(one) not in kinds), *writes)

    def note(self, **changes: Any) -> None:
        """Change the notes of this life; the agent's next step carries them."""
        self.notes = replace(self.notes, **changes)
        self.ride(AgentNoted(notes=self.notes))

    def open_among(self, questions: Sequence[str]) -> tuple[str, ...]:
        """Return the given questions, by correlation id, that still wait for an answer."""
        return tuple(about for about in questions if about in self.questions)

    def forget_conversation(self) -> None:
        """Make the next life begin a new conversation."""
        self.resume_token = self.context_used = self.team = self.team_source = None
        self.ride(ThreadKept(thread=None))

    def live_on(self) -> None:
        """Begin the next life of an agent that was cut off."""
        self.incarnation += 1
        self.descriptor = replace(self.descriptor, incarnation=self.incarnation)

    def restore_point(self) -> Callable[[], None]:
        """Return a function that restores the record, in case the next step fails."""
        was = [(name, getattr(self, name)) for name in self.__struct_fields__]

        def restore() -> None:
            if self._ended is not None and not self._ended.done():
                self._ended.set_result(None)  # of the life that has not come to be
            for name, value in was:
                setattr(self, name, value)

        return restore

    def begin_incarnation(self, prompt: str, state: AgentState, now: float) -> None:
        """Begin the next life of an ended agent."""
        self.incarnation += 1
        self.state = state
        self.descriptor = replace(
            self.descriptor, incarnation=self.incarnation, prompt=prompt, state=state
        )
        self.result = self.claimed_result = self.waiting_on = None
        self.has_ended, self._ended = False, None
        self.questions, self.progress = {}, {}
        self.reasoning_used = 0.0
        known = self.notes  # reports are counted over all lives
        kept = {"reports": known.reports, "heard": known.heard, "chosen": known.chosen}
        self.notes = replace(NO_NOTES, **kept)
        self.note(began_at=now)
        self.is_condemned = False
        self._steps = 0


_WRITTEN = Step(step_id="", session_id="", run_id="", agent_id=None, at=0.0)  # in place of any


class Staged(Struct, eq=False):
    """A step that waits for its agent's next one."""

    step: Step
    needs: Staged | None = None  # without that act this one means nothing
    is_settled: bool = False  # it is in the ledger, or was refused
    refused: Exception | None = None  # why it was left out: it is not in the ledger, and never is

    def settle(self) -> None:
        """Note that the step was written or refused, and drop its contents."""
        self.is_settled = True
        self.step, self.needs = _WRITTEN, None

    def fits(self, run_id: str, incarnation: int) -> bool:
        """Whether it is of this life and run, and can be written."""
        step, needs = self.step, self.needs
        is_same = step.incarnation == incarnation and step.run_id == run_id
        return is_same and (needs is None or needs.refused is None)


class Names(set[str]):
    """The aliases in use."""

    def __init__(self) -> None:
        super().__init__()
        self._next: dict[str, int] = {}  # by prefix: all numbers below are taken

    def numbered(self, prefix: str) -> str:
        """Return the free alias of the lowest number, such as w3."""
        number = self._next.get(prefix, 1)
        while f"{prefix}{number}" in self:
            number += 1
        self._next[prefix] = number
        return f"{prefix}{number}"

    def free(self, name: str) -> None:
        """Release an alias."""
        self.discard(name)
        self._next.clear()


class Roster:
    """Owns the records of all agents, their names and their tree."""

    def __init__(self) -> None:
        self._records: dict[str, AgentRecord] = {}
        self._sizes: Counter[str] = Counter()  # agents by run
        self._born = count(1)
        self._aliases: dict[str, str] = {}  # ids that agents had where their session was forked
        self.taken_names = Names()  # of all agents of the session, earlier runs included

    def enlist(self, record: AgentRecord) -> None:
        """Add a new agent below its parent. Raises MessageRoutingError for an unknown parent."""
        if record.descriptor.parent_id is not None:
            self.get(record.descriptor.parent_id)
        self.adopt(record)

    def adopt(self, record: AgentRecord) -> None:
        """Add an agent of an earlier engine, below its parent if there is one."""
        self._records[record.agent_id] = record
        self._sizes[record.descriptor.run_id] += 1
        self.taken_names.add(record.descriptor.name)
        record.birth = next(self._born)
        if (parent := self.parent_of(record)) is not None:
            parent.children.append(record.agent_id)
            if not record.has_ended:
                self.revive(record)

    def know(self, aliases: Mapping[str, str]) -> None:
        """Let agents be found by the ids they had before their session was forked."""
        self._aliases.update(aliases)

    def strike(self, record: AgentRecord) -> None:
        """Forget an agent that never came to be."""
        del self._records[record.agent_id]
        self._sizes[record.descriptor.run_id] -= 1
        self.taken_names.free(record.descriptor.name)
        parent = self.parent_of(record)
        if parent is not None:
            parent.children.remove(record.agent_id)
            parent.live_children.pop(record.agent_id, None)

    def revive(self, record: AgentRecord) -> None:
        """Count an ended agent among its parent's live children again."""
        parent = self.parent_of(record)
        if parent is not None:
            parent.live_children[record.agent_id] = record

    def settle(self, record: AgentRecord) -> AgentRecord | None:
        """Remove an ended agent from its parent's live children; return the parent."""
        parent = self.parent_of(record)
        if parent is not None:
            parent.live_children.pop(record.agent_id, None)
        return parent

    def size(self, run_id: str) -> int:
        """Return how many agents a run has had."""
        return self._sizes[run_id]

    def records(self) -> Collection[AgentRecord]:
        """Return all agents, oldest first."""
        return self._records.values()

    def get(self, agent_id: str) -> AgentRecord:
        """Return an agent's record; raise MessageRoutingError for an unknown id."""
        record = self._records.get(agent_id) or self._records.get(self._aliases.get(agent_id, ""))
        if record is None:
            raise MessageRoutingError(f"there is no agent {agent_id}", code="unknown_agent")
        return record

    def find(self, agent_id: str) -> AgentRecord | None:
        """Return an agent's record, or None."""
        return self._records.get(self._aliases.get(agent_id, agent_id))

    def parent_of(self, record: AgentRecord) -> AgentRecord | None:
        """Return the parent, or None for a master."""
        return self._records.get(record.descriptor.parent_id or "")

    def lineage(self, agent_id: str) -> tuple[str, ...]:
        """Return the agent and all above it, up to its master."""
        lineage = [agent_id]
        while (parent := self.get(lineage[-1]).descriptor.parent_id) is not None:
            lineage.append(parent)
        return tuple(lineage)

    def family(self, record: AgentRecord) -> Iterator[tuple[AgentRecord, str]]:
        """Yield the agent and all ever below it, with their paths: `w1/w2`."""
        below = [(record, "")]
        while below:
            one, path = below.pop(0)
            yield one, path
            children = [self.get(child) for child in one.children]
            below += [(c, f"{path}/{c.descriptor.name}".lstrip("/")) for c in children]

    def names(self) -> dict[str, str]:
        """Return the aliases by agent id."""
        return {agent_id: r.descriptor.name for agent_id, r in self._records.items()}

    def resolve(self, text: str, among: Sequence[str] | None = None) -> AgentRecord:
        """Return the agent of an alias, id or unique id prefix, `among` some if given."""
        text = self._aliases.get(text, text)
        ids = tuple(self._records) if among is None else tuple(among)
        records = [self._records[agent_id] for agent_id in ids]
        exact = [r for r in records if text in {r.descriptor.name, r.agent_id}]
        found = exact or [r for r in records if text and r.agent_id.startswith(text)]
        if len(found) == 1:
            return found[0]
        if found:
            raise MessageRoutingError(
                f"{text!r} fits several agents", hint="give more of the id", code="ambiguous_agent"
            )
        from difflib import get_close_matches

        whose = "agent" if among is None else "child of yours"
        names = [r.descriptor.name for r in records]
        near = "".join(f"; did you mean {name!r}?" for name in get_close_matches(text, names, n=1))
        hint = f"known: {', '.join(names) or 'none'}{near}"
        raise MessageRoutingError(f"{text!r} is no {whose}", hint=hint, code="unknown_agent")
