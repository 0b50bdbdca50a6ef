"""Agents: their states, roles, modes, and the records that describe and end them."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

from msgspec import field
from msgspec.structs import asdict, replace

from prsm_core.domain.budgets import NO_LIMITS, Budget
from prsm_core.domain.record import Record
from prsm_core.domain.tools import READ_TOOLS, WRITING_TOOLS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prsm_core.domain.tools import McpServer


NO_LABELS: Mapping[str, str] = {}
UNCHECKED = "nothing has checked what it changed last"
"""The gap of a result that nothing speaks against, and nothing for."""

OWN_PART = "\n\nYour name is "
"""Begins what of a system prompt is its agent's own. Siblings are told all before it alike."""


def add_shared(system_prompt: str, text: str) -> str:
    """Return a system prompt with a text added that siblings share.

    It comes before the agent's own part: a vendor's cache serves siblings up to there.
    """
    shared, mark, own = system_prompt.rpartition(OWN_PART)
    return f"{shared}\n\n{text}{mark}{own}" if mark else f"{system_prompt}\n\n{text}"


class AgentState(StrEnum):
    """The nine states of an agent; a state says what happened, nothing else."""

    PENDING = "pending"
    STARTING = "starting"
    RUNNING = "running"
    WAITING_FOR_PARENT = "waiting_for_parent"
    WAITING_FOR_CHILD = "waiting_for_child"
    WAITING_FOR_EXPERT = "waiting_for_expert"
    COMPLETED = "completed"
    FAILED = "failed"
    KILLED = "killed"

    is_terminal: bool  # whether the agent has ended

    def __init__(self, value: str) -> None:
        self.is_terminal = value in {"completed", "failed", "killed"}


class AgentRole(StrEnum):
    """An agent's function in the tree; it decides the orchestration tools it has."""

    MASTER = "master"
    WORKER = "worker"
    EXPERT = "expert"
    REVIEWER = "reviewer"


# Whoever of them may read files may also run commands that only read.
SHELL_READERS = frozenset({AgentRole.EXPERT, AgentRole.REVIEWER})


class PermissionMode(StrEnum):
    """How much runs without asking: PLAN < DEFAULT < ACCEPT_EDITS < BYPASS.

    DELEGATE is no rung of that ladder but a tool set: orchestration plus Read, Glob, Grep.
    """

    DEFAULT = "default"
    ACCEPT_EDITS = "accept_edits"
    BYPASS = "bypass"
    PLAN = "plan"
    DELEGATE = "delegate"


# Modes that hold for masters, too, which only read.
_HELD_BY_ALL = frozenset({PermissionMode.PLAN, PermissionMode.DELEGATE})


class Grant(Record, frozen=True, gc=False, kw_only=True):
    """What an agent may hand down to its children; never more than its parent's grant."""

    tools: frozenset[str]
    mode: PermissionMode = PermissionMode.DEFAULT
    models: frozenset[str] | None = None  # "provider/model"; None = all that are configured
    depth: int | None = None  # levels of agents below it; None = as the engine's limit allows
    budget: Budget = NO_LIMITS  # of the agent and all below it
    model: str | None = None  # of a child that names none, as one would name it; None = its own
    region: tuple[str, ...] | None = None  # folders it and those below may write; None = its own


class AgentDescriptor(Record, frozen=True, gc=False, kw_only=True):
    """One agent as it is known to the engine and the ledger."""

    agent_id: str
    name: str  # alias for people, unique in the session: master, w1 …
    session_id: str
    run_id: str
    role: AgentRole
    provider: str
    model: str
    prompt: str
    system_prompt: str
    cwd: str
    tools: frozenset[str]  # canonical native tools it may use: Read, Edit, Bash …
    grant: Grant
    mode: PermissionMode = PermissionMode.DEFAULT
    parent_id: str | None = None
    depth: int = 0
    state: AgentState = AgentState.PENDING
    incarnation: int = 1
    reasoning_effort: str | None = None
    mcp_servers: Mapping[str, McpServer] = field(default_factory=dict)
    created_at: float = 0.0  # Unix seconds
    labels: Mapping[str, str] = field(default_factory=dict)  # see domain.labels
    continues: str | None = None  # the agent whose conversation it began with, as that was by then

    @property
    def usable_tools(self) -> frozenset[str]:
        """Its native tools in its present mode: in DELEGATE these are the readers."""
        return self.tools & READ_TOOLS if self.mode is PermissionMode.DELEGATE else self.tools

    @property
    def is_solo(self) -> bool:
        """Whether it leads a run and works itself: a master whose own tools change files."""
        return self.role is AgentRole.MASTER and not self.usable_tools.isdisjoint(WRITING_TOOLS)

    @property
    def run_mode(self) -> PermissionMode:
        """The mode of the run that it leads; a master that only reads has BYPASS itself."""
        return self.mode if self.mode in _HELD_BY_ALL else self.grant.mode

    def in_mode(self, mode: PermissionMode) -> AgentDescriptor:
        """Return the master as one of a run in this mode; it keeps its tools."""
        works = not self.tools.isdisjoint(WRITING_TOOLS)
        granted = PermissionMode.DEFAULT if mode is PermissionMode.DELEGATE else mode
        return replace(
            self,
            mode=mode if works or mode in _HELD_BY_ALL else PermissionMode.BYPASS,
            grant=replace(self.grant, mode=granted),
        )

    @property
    def duties(self) -> frozenset[AgentRole]:
        """The roles whose rules hold for it: a master that works itself is a worker, too."""
        return frozenset({self.role, AgentRole.WORKER} if self.is_solo else {self.role})


class SpawnRequest(Record, frozen=True, gc=False, kw_only=True):
    """What a spawn asks for; None takes the parent's value."""

    prompt: str
    parent_id: str | None = None
    role: AgentRole = AgentRole.WORKER
    name: str | None = None
    tools: frozenset[str] | None = None
    mode: PermissionMode | None = None
    model: str | None = None  # an alias, "provider/model", or a model of the parent's provider
    cwd: str | None = None
    region: tuple[str, ...] | None = (
        None  # folders that are the child's to write, and nobody's else
    )
    worktree: bool | None = None  # one of its own; None: as the settings have it
    mcp_servers: Mapping[str, McpServer] | None = None
    exclude_plugins: frozenset[str] = frozenset()
    complexity: str | None = None
    models: frozenset[str] | None = None  # all that the child may use or hand down
    depth: int | None = None  # levels of agents below the child
    budget: Budget | None = None  # of the child and all below it
    expert: ExpertProfile | None = None  # who the child is; its tools stay within the grant
    labels: Mapping[str, str | None] | None = None  # laid over the parent's; None takes one away
    continues: str | None = None  # id of a child of the parent, whose conversation it begins with


class AgentResult(Record, frozen=True, gc=False, kw_only=True):
    """An agent's final result; there is exactly one per incarnation."""

    agent_id: str
    success: bool
    summary: str
    artifacts: tuple[str, ...] = ()
    error: str | None = None
    error_kind: str | None = None  # one of the seven kinds of AgentError, or an error code
    duration: float = 0.0  # seconds
    evidence: str = "claimed"  # claimed | checked | verified
    evidence_gaps: tuple[str, ...] = ()  # what was claimed and could not be confirmed
    evidence_by: tuple[str, ...] = ()  # what of it agents below it did, and which of them

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        lists = {name: list(getattr(self, name)) for name in _LISTS}
        return asdict(self) | lists

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> AgentResult:
        """Build a result from the values of `to_dict`."""
        lists = {name: tuple(data.get(name, ())) for name in _LISTS}
        return cls(**{**data, **lists})


_LISTS = ("artifacts", "evidence_gaps", "evidence_by")  # of an AgentResult


class ExpertProfile(Record, frozen=True, gc=False, kw_only=True):
    """An agent that others may have: an expert to consult, a worker or a reviewer to spawn."""

    expert_id: str
    name: str
    system_prompt: str
    description: str = ""
    tools: frozenset[str] = frozenset({"Read", "Glob", "Grep"})
    model: str | None = None
    mcp_servers: Mapping[str, McpServer] = field(default_factory=dict)
    role: AgentRole = AgentRole.EXPERT
    worktree: bool | None = None  # one of its own; None: as the settings have it
