"""A session at one commit: all that a resume adopts, a fork rewrites, and a diff compares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import field

from prsm_core.domain.notes import NO_NOTES
from prsm_core.domain.record import Record
from prsm_core.domain.turns import StopReason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prsm_core.domain.agents import AgentDescriptor, AgentResult
    from prsm_core.domain.changes import ChangeRow
    from prsm_core.domain.messages import RoutedMessage
    from prsm_core.domain.notes import Notes
    from prsm_core.domain.steps import HumanRequest
    from prsm_core.domain.turns import AgentMessage, AgentToolCall, Effect
    from prsm_core.domain.usage import Spent


class SessionSnapshot(Record, frozen=True, gc=False, kw_only=True):
    """A snapshot of a folder's files, for a session; named again if nothing has changed.

    The content lies in PRSM's own git directories (see `prsm_files.shadow`), by the snapshot's id.
    """

    snapshot_id: str
    last_commit: int  # position of the session's newest commit before it; 0: there was none
    taken_at: float  # Unix seconds
    kind: str  # run | prompt | manual | safety | rescue
    folder: str
    tree: str  # of all files, as git names it
    staged: str | None = None  # the tree of the staging area; None: there is none
    branch: str | None = None
    head: str | None = None  # the commit that HEAD was at
    agent_id: str | None = None  # whom the prompt is for
    description: str = ""
    bytes_skipped: int = 0  # of files that it does not hold
    unquiet: tuple[str, ...] = ()  # agents and what they ran that may have written meanwhile


class CallState(Record, frozen=True, kw_only=True):
    """A tool call of an open turn; `call.completed_at` is None while it has no answer."""

    call: AgentToolCall
    effects: tuple[Effect, ...] = ()  # in order of commit
    consumed: tuple[str, ...] = ()  # ids of the agent's messages that its answer used
    answered_at: int | None = None  # number of the event that told its end
    response: int = 0  # of the model in the turn: calls of one are answered together
    is_undone: bool = False  # its answer was lost with its session, and counts as never given


class TurnState(Record, frozen=True, kw_only=True):
    """A turn that nobody has closed."""

    turn_id: str
    number: int
    parent_turn_id: str | None
    started_at: int  # Unix ms
    messages: tuple[AgentMessage, ...] = ()  # so far, those the model was sent included
    calls: tuple[CallState, ...] = ()  # the engine's and the vendor's, in the order they began
    spent: Spent | None = None  # as far as it was told; None: nothing was
    last_heard: int = 0  # number of the last event by which its model showed that it goes on
    withheld: frozenset[str] = frozenset()  # the vendor's calls that never ran; a resume knows them


class TurnEnd(Record, frozen=True, gc=False, kw_only=True):
    """How an agent's newest turn ended, those apart that only compacted its conversation."""

    turn_id: str
    stop_reason: str
    error: Mapping[str, Any] | None
    last_text: str  # the model's last message in it, blank without one

    @property
    def has_failed(self) -> bool:
        """Whether it ended otherwise than by its model."""
        return self.error is not None or self.stop_reason != StopReason.END_TURN

    is_compacted: bool = False  # its agent's conversation was compacted since

    @property
    def was_too_long(self) -> bool:
        """Whether its model has refused the prompt as too long."""
        return self.error is not None and self.error["kind"] == "context_overflow"


class AgentNow(Record, frozen=True, kw_only=True):
    """An agent with all that another life of it needs."""

    agent: AgentDescriptor  # with its present state, incarnation, prompt and model
    waiting_on: str | None = None
    result: AgentResult | None = None  # final if the state is terminal, else claimed
    resume_token: str | None = None
    notes: Notes = NO_NOTES
    next_turn: int = 1
    head_turn_id: str | None = None  # its newest closed turn
    open_turn: TurnState | None = None
    last_turn: TurnEnd | None = None  # how the newest of its own ended
    turns: int = 0  # begun in the session's newest run
    spent: Spent | None = None  # by closed turns of that run; None: nothing was told
    ended_at: float | None = None  # Unix seconds


class AskedQuestion(Record, frozen=True, kw_only=True):
    """A question of an agent that still waits for the answer of another."""

    message: RoutedMessage
    is_read: bool  # the one who is asked has it


class RunNow(Record, frozen=True, kw_only=True):
    """A run, and how it can be gone on with."""

    run_id: str
    task: str
    workspace: str
    status: str  # running | completed | failed | killed | interrupted
    epoch: int  # 1, and one more with each resume
    started_at: float  # Unix seconds
    finished_at: float | None = None
    options: Mapping[str, Any] = field(default_factory=dict)  # what it was started with
    outcome: Mapping[str, Any] | None = None  # status, summary, error of a finished one
    engine: tuple[str, int, Any] | None = None  # boot id, pid, start of the newest owner's process


class Origin(Record, frozen=True, gc=False, kw_only=True):
    """A session whose past another one shares: up to a commit of it, and the event told by then."""

    session_id: str
    position: int
    seq: int


class SessionState(Record, frozen=True, kw_only=True):
    """A session as its ledger had it after the commit `position`."""

    session_id: str
    position: int  # of the newest commit that it knows
    seq: int  # of its newest event
    task: str
    workspace: str
    created_at: float  # Unix seconds
    runs: tuple[RunNow, ...]  # oldest first
    agents: tuple[AgentNow, ...]  # in order of creation: parents come first
    unread: tuple[RoutedMessage, ...]  # by the present lives, in order of commit
    questions: tuple[AskedQuestion, ...]  # whose asker's call is open, in order of commit
    requests: tuple[HumanRequest, ...]  # open, oldest first
    grants: tuple[Mapping[str, Any], ...]  # oldest first: agent_id, data, created_at
    snapshots: tuple[SessionSnapshot, ...] = ()  # of files, in order of commit
    changes: tuple[ChangeRow, ...] = ()  # of files, with what was decided, in order of commit
    origins: tuple[Origin, ...] = ()  # of a fork, those whose past it shares, oldest first
    aliases: Mapping[str, str] = field(default_factory=dict)  # its ids, by what they were there

    @property
    def live(self) -> tuple[AgentDescriptor, ...]:
        """The agents that have not ended, parents first."""
        agents = (now.agent for now in self.agents)
        return tuple(agent for agent in agents if not agent.state.is_terminal)

    def withheld(self, agent_id: str) -> frozenset[str]:
        """Return an agent's calls that a person was asked about and had not allowed: none ran."""
        return frozenset(
            str(row.payload["call"])
            for row in self.requests
            if row.agent_id == agent_id and row.kind == "permission" and row.payload.get("call")
        )
