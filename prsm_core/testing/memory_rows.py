"""The rows of a MemoryLedger, and how changes to them are taken back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from prsm_core.domain.turns import StopReason
from prsm_core.errors import StoreError

if TYPE_CHECKING:
    from prsm_core.domain.agents import AgentDescriptor, AgentResult, AgentState
    from prsm_core.domain.messages import RoutedMessage
    from prsm_core.domain.steps import CallClose, HumanRequest, Resolution, TurnOpenStep
    from prsm_core.domain.turns import AgentToolCall, TurnResult

_FAILED = frozenset({StopReason.ERROR, StopReason.TIMEOUT})


@dataclass(slots=True)
class AgentEntry:
    """An agent: its descriptor as spawned, and what has changed since."""

    descriptor: AgentDescriptor
    state: AgentState
    incarnation: int
    prompt: str
    waiting_on: str | None = None
    result: AgentResult | None = None
    resume_token: str | None = None
    next_turn: int = 1
    head_turn_id: str | None = None
    ended_at: float | None = None

    @property
    def label(self) -> str:
        """The agent's ledger session."""
        return f"{self.descriptor.session_id}/{self.descriptor.name}"


@dataclass(slots=True)
class CallEntry:
    """An orchestration call as it was opened, and its answer."""

    call: AgentToolCall
    close: CallClose | None = None


@dataclass(slots=True)
class TurnEntry:
    """A turn as it was opened, its orchestration calls, and what it became."""

    step: TurnOpenStep
    agent_id: str
    calls: dict[str, CallEntry] = field(default_factory=dict)
    result: TurnResult | None = None
    closed_by: str | None = None  # the step that closed it

    @property
    def status(self) -> str:
        """What the ledger calls it: running, completed, failed, aborted."""
        if self.result is None:
            return "running"
        if self.result.stop_reason is StopReason.ABORTED:
            return "aborted"
        failed = self.result.error is not None or self.result.stop_reason in _FAILED
        return "failed" if failed else "completed"


@dataclass(slots=True)
class MessageEntry:
    """A message in its target's inbox."""

    message: RoutedMessage
    session_id: str
    incarnation: int
    consumed_by: str | None = None


@dataclass(slots=True)
class RequestEntry:
    """A request to a person, and its end."""

    request: HumanRequest
    session_id: str
    resolution: Resolution | None = None


@dataclass(slots=True)
class RunEntry:
    """A run of a session."""

    run_id: str
    session_id: str
    status: str = "running"


@dataclass(slots=True)
class SessionEntry:
    """A session with the task of its first run."""

    task: str
    workspace: str
    created_at: float


class Undo:
    """Changes rows and tables so that all of it can be taken back."""

    def __init__(self) -> None:
        self._done: list[tuple[Any, Any, Any]] = []

    def insert(self, table: dict[Any, Any], key: object, row: object) -> None:
        """Put a row into a table; raises StoreError for a key that is used already."""
        if key in table:
            raise StoreError(f"{key} is used already", code="conflict")
        self._done.append((table, key, None))
        table[key] = row

    def set(self, row: object, **values: Any) -> None:
        """Change columns of a row."""
        for name, value in values.items():
            self._done.append((row, name, getattr(row, name)))
            setattr(row, name, value)

    def roll_back(self) -> None:
        """Take everything back, the last change first."""
        for target, key, old in reversed(self._done):
            if isinstance(target, dict):
                del target[key]
            else:
                setattr(target, key, old)
