"""The state that the model of a ledger keeps, as somebody who reads it would describe it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

OVER = {"completed", "failed", "killed"}


@dataclass
class Agent:
    """An agent as somebody who reads the ledger would describe it."""

    name: str
    parent: str | None
    provider: str
    model: str
    prompt: str
    labels: dict[str, str]
    modes: tuple[str, str]
    state: str = "pending"
    life: int = 1
    waiting_on: str | None = None
    result: Any = None
    thread: str | None = None
    notes: Any = None  # None: all as usual
    next_turn: int = 1
    head: str | None = None
    ended_at: float | None = None
    turns: list[Turn] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.state in OVER


@dataclass
class Turn:
    """A turn; `closed_by` is the step that ended it."""

    id: str
    agent: str
    number: int
    parent: str | None
    started_at: float
    status: str = "running"
    closed_by: str | None = None
    tokens: int | None = None
    cost: float | None = None
    calls: dict[str, Call] = field(default_factory=dict)


@dataclass
class Call:
    """A call of a tool."""

    id: str
    tool: str
    arguments: Any
    status: str
    result: str | None
    error: str | None
    sequence: int
    is_ours: bool  # of an orchestration tool
    is_answered: bool


def call_of(call: Any, *, is_ours: bool) -> Call:
    """Return a call as somebody who reads the ledger would describe it."""
    return Call(
        id=call.id,
        tool=call.tool_name,
        arguments=dict(call.params),
        status=call.status,
        result=call.result,
        error=call.error,
        sequence=call.sequence,
        is_ours=is_ours,
        is_answered=call.completed_at is not None,
    )


@dataclass
class Letter:
    """A message, the life it is for, and whether it was read."""

    message: Any
    target: str
    life: int
    is_read: bool = False
    read_by: str | None = None  # the call whose answer used it


@dataclass
class Request:
    """What waits for a person, or has."""

    request: Any
    is_open: bool = True


@dataclass
class State:
    """All that the ledger of one session holds but its events."""

    runs: dict[str, str] = field(default_factory=dict)  # each one's status
    epochs: dict[str, int] = field(default_factory=dict)  # of those that were gone on with
    task: str | None = None
    name: str | None = None
    agents: dict[str, Agent] = field(default_factory=dict)
    turns: dict[str, Turn] = field(default_factory=dict)
    letters: dict[str, Letter] = field(default_factory=dict)
    requests: dict[str, Request] = field(default_factory=dict)
    changes: dict[str, tuple[str, str, str | None]] = field(
        default_factory=dict
    )  # path, state, why
    effects: dict[tuple[str, str, str], str | None] = field(
        default_factory=dict
    )  # turn, call, name


def in_order(turn: Turn) -> list[Call]:
    return sorted(turn.calls.values(), key=lambda call: call.sequence)


def status_of(result: Any) -> str:
    if result.stop_reason.value == "aborted":
        return "aborted"
    failed = result.error is not None or result.stop_reason.value in {"error", "timeout"}
    return "failed" if failed else "completed"


def sum_of(parts: Iterable[Any]) -> Any:
    known = [part for part in parts if part is not None]
    return sum(known) if known else None
