"""The store: the durable truth. `commit(step)` is its one act."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from prsm_core.domain.record import Record
from prsm_core.domain.usage import Spent
from prsm_core.door import OpenTool, RunState

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Mapping, Sequence

    from prsm_core.domain.agents import AgentDescriptor, AgentResult
    from prsm_core.domain.changes import ChangeRow
    from prsm_core.domain.events import Event
    from prsm_core.domain.messages import RoutedMessage
    from prsm_core.domain.notes import ModelChoice
    from prsm_core.domain.sessions import SessionState
    from prsm_core.domain.steps import Committed, HumanRequest, Step


class SessionInfo(Record, frozen=True, kw_only=True):
    """A session as listed."""

    session_id: str
    run_id: str | None  # its newest run
    status: str | None  # of that run: running, or as in run_finished
    task: str
    workspace: str
    started_at: float
    last_seq: int
    name: str | None = None  # that a person gave it
    engine: tuple[str, int, Any] | None = None  # of its newest run: boot id, pid, start of the
    # process; None where that is not known
    last_at: float | None = None  # of its newest event, Unix seconds
    origin: str | None = None  # the session that it was forked from
    is_aside: bool = (
        False  # all that was said in it was taken back; nothing goes on with it unasked
    )


class AgentRow(Record, frozen=True, gc=False, kw_only=True):
    """An agent as the ledger knows it now."""

    descriptor: AgentDescriptor  # with its present state and incarnation
    waiting_on: str | None
    result: AgentResult | None
    resume_token: str | None
    next_turn: int
    head_turn_id: str | None
    started_at: float | None  # first turn, Unix seconds
    ended_at: float | None
    last_tool: str | None
    last_event_at: float | None
    spent: Spent = Spent()  # by its own turns
    chosen: ModelChoice | None = None  # by a person, for its next turn on


class OpenCalls:
    """The open calls of one turn, as its events tell of them.

    An id alone does not name one: an orchestration and a vendor's call may share it. Only events of
    the former name their turn.
    """

    def __init__(self) -> None:
        self._calls: dict[tuple[str, str | None, bool], OpenTool] = {}

    def begin(self, call: OpenTool, turn: str | None, *, orchestration: bool) -> None:
        """Take a call that begins; one before it of the same kind and id no longer counts."""
        key = call.call, turn if orchestration else None, orchestration
        self._calls.pop(key, None)
        self._calls[key] = call

    def end(self, call_id: str, turn: str | None) -> None:
        """Take the end of a call."""
        self._calls.pop((call_id, turn, turn is not None), None)

    def take(self, event: Event) -> None:
        """Take what an event tells that is of a call: its begin or its end."""
        data = event.data
        if event.type == "tool_call_started":
            call = OpenTool(call=data["call"], tool=data["tool"], since=event.ts)
            ours = bool(data.get("orchestration"))
            self.begin(call, data.get("turn"), orchestration=ours)
        else:
            self.end(data["call"], data.get("turn"))

    def in_order(self) -> tuple[OpenTool, ...]:
        """Return them in the order in which they began."""
        return tuple(self._calls.values())


class OpenTurn(Record, frozen=True, gc=False, kw_only=True):
    """A turn that runs."""

    agent_id: str
    turn_id: str
    number: int
    calls: tuple[OpenTool, ...] = ()


class TakenNames(Record, frozen=True, kw_only=True):
    """What the next run of a session must not give again."""

    names: frozenset[str]  # of all agents
    last_event_at: float = 0.0  # Unix seconds; ids are made from the time


class Picture(Record, frozen=True, kw_only=True):
    """A session as it was when event `seq` was its last."""

    seq: int
    run: RunState | None  # the newest
    agents: Sequence[AgentRow]  # in order of creation
    requests: Sequence[HumanRequest]  # open, oldest first
    unread: Sequence[RoutedMessage]  # in order of commit
    turns: Sequence[OpenTurn]  # that run, by agent in order of creation
    contexts: Mapping[str, Any]  # by agent: what its last `turn_finished` told as `context`


class Store(ABC):
    """Every implementation passes the same contract tests."""

    @abstractmethod
    async def commit(self, step: Step) -> Committed:
        """Apply a step in one transaction and return once it is durable.

        Steps of one task are applied in its order. Raises FencedError for an older incarnation or
        an ended agent (for `Write.is_of_life`), InvalidTransitionError for a change that does not
        fit the stored state, StoreError for what cannot be written.
        """

    @abstractmethod
    async def append(self, events: Sequence[Event]) -> tuple[Event, ...]:
        """Append events that no step causes (what a provider merely says), numbered, durable."""

    @abstractmethod
    def events(
        self, session_id: str, after: int = 0, *, follow: bool = False, agent: str | None = None
    ) -> AsyncIterator[Event]:
        """Yield the session's events with seq > `after`, in order and without a gap.

        `follow` waits for more, also of other processes, until the iterator is closed.
        """

    @abstractmethod
    async def last_events(
        self,
        session_id: str,
        agent: str,
        *,
        kinds: Collection[str],
        limit: int,
        before: int | None = None,
    ) -> Sequence[Event]:
        """Return the agent's last `limit` events of these kinds with seq < `before`, in order."""

    @abstractmethod
    async def picture(self, session_id: str) -> Picture:
        """Return the session at one moment, between two commits."""

    @abstractmethod
    async def state(self, session_id: str, at: int | None = None) -> SessionState:
        """Return the session after the commit `at`, else as it is; in one snapshot.

        Raises StoreError (code `unknown_session`, `unknown_position`).
        """

    @abstractmethod
    async def shared_snapshots(self) -> frozenset[str]:
        """Return the ids of the snapshots of files that forks name, of all sessions."""

    @abstractmethod
    async def find_commit(self, session_id: str, seq: int) -> tuple[str, int]:
        """Return the session whose commit holds the event `seq`, and the commit's position.

        That is this session or one whose past it shares. Raises StoreError (code
        `unknown_position`).
        """

    @abstractmethod
    async def sessions(self) -> Sequence[SessionInfo]:
        """Return all sessions, newest first."""

    @abstractmethod
    async def sessions_with(self, label: str, text: str, *, limit: int) -> Sequence[str]:
        """Return the newest `limit` sessions in which an agent has this label, newest first."""

    @abstractmethod
    async def agents(self, session_id: str) -> Sequence[AgentRow]:
        """Return the session's agents in order of creation."""

    @abstractmethod
    async def taken(self, session_id: str) -> TakenNames:
        """Return the names of the session's agents, and when its last event was."""

    @abstractmethod
    async def inbox(self, session_id: str) -> Sequence[RoutedMessage]:
        """Return the unconsumed messages of the session in order of commit."""

    @abstractmethod
    async def open_requests(self, session_id: str) -> Sequence[HumanRequest]:
        """Return the permission requests and questions nobody has answered."""

    @abstractmethod
    async def calls(self, agent_id: str) -> Sequence[Mapping[str, Any]]:
        """Return the agent's tool calls of all turns, oldest first, as ledger rows."""

    @abstractmethod
    async def changes(self, session_id: str) -> Sequence[ChangeRow]:
        """Return all changes of files that the session has found, oldest first."""

    @abstractmethod
    async def aclose(self) -> None:
        """Finish what was submitted, then close."""


class SessionLog:
    """What the events of a session tell of its run, its turns and their calls."""

    def __init__(self) -> None:
        self.seq = 0
        self.run: RunState | None = None
        self.contexts: dict[str, Any] = {}
        self._turns: dict[str, OpenTurn] = {}  # by agent
        self._calls: dict[str, OpenCalls] = {}  # by agent

    def add(self, event: Event) -> None:
        """Take the next event."""
        self.seq = event.seq or self.seq
        self.run = _run_after(self.run, event)
        agent, data = event.agent or "", event.data
        match event.type:
            case "turn_started":
                self._turns[agent] = OpenTurn(
                    agent_id=agent, turn_id=data["turn"], number=data["n"]
                )
                self._calls[agent] = OpenCalls()
            case "turn_finished":
                self.contexts[agent] = data.get("context")
                if agent in self._turns and self._turns[agent].turn_id == data["turn"]:
                    del self._turns[agent]
            case "tool_call_started" | "tool_call_finished" if agent in self._calls:
                self._calls[agent].take(event)

    def open_turns(self, agents: Sequence[str]) -> list[OpenTurn]:
        """Return the turns of agents that run, with their calls."""
        return [
            replace(self._turns[agent], calls=self._calls[agent].in_order())
            for agent in agents
            if agent in self._turns
        ]


def _run_after(run: RunState | None, event: Event) -> RunState | None:
    data = event.data
    match event.type:
        case "run_started":
            return RunState(
                id=event.run or "", task=data["task"], status="running", started_at=event.ts
            )
        case "run_resumed" if run is not None and run.id == event.run:
            return replace(run, status="running", finished_at=None, summary="", error=None)
        case "run_finished" if run is not None:
            return replace(
                run,
                status=data["status"],
                finished_at=event.ts,
                summary=data.get("summary") or "",
                error=data.get("error"),
            )
        case "session_forked" if run is not None and run.status == "running":
            return replace(run, status="interrupted")
    return run
