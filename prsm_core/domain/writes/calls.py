"""Calls of orchestration tools: durable before they act, answered before the provider hears it.

A call's effects are noted in the step that has them, so that no resume repeats them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict, astuple

from prsm_core.domain.rows import Insert, Update, refusing
from prsm_core.domain.steps import Write
from prsm_core.domain.turns import AgentToolCall
from prsm_core.domain.writes.agents import own_fence
from prsm_core.domain.writes.messages import consumed, unread
from prsm_core.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from prsm_core.domain.rows import Ledger, Row
    from prsm_core.domain.steps import Step, Telling
    from prsm_core.domain.turns import Effect


class CallOpened(Write, frozen=True, kw_only=True):
    """A call of an orchestration tool in a running turn."""

    texts = ("call",)
    is_of_life = True

    turn_id: str
    call: AgentToolCall
    response: int = 0  # of its turn's model: those of one are answered together

    def guard(self, step: Step, ledger: Ledger) -> None:
        _, closed_by = require_turn(step, self.turn_id, ledger)
        if closed_by is not None:
            raise StoreError(f"turn {self.turn_id} is closed", code="turn_closed")

    def rows(self, step: Step) -> Iterable[Row]:
        return (Insert("tool_calls", running_row(self.turn_id, self.call)),)

    def events(self, step: Step) -> Iterable[Telling]:
        data = {
            "call": self.call.id,
            "tool": self.call.tool_name,
            "arguments": dict(self.call.params),
            "orchestration": True,
            "response": self.response,
            "turn": self.turn_id,
        }
        return step.telling("tool_call_started", data)


class CallClosed(Write, frozen=True, kw_only=True):
    """The stored answer of an orchestration call, written before it is sent."""

    texts = ("result",)

    turn_id: str
    call_id: str
    status: str  # completed | failed
    result: str
    consumed: tuple[str, ...] = ()  # ids of the messages this answer used
    at_ms: int = 0
    duration_s: float = 0.0
    exit_code: int | None = None  # of a command

    def guard(self, step: Step, ledger: Ledger) -> None:
        require_turn(step, self.turn_id, ledger)

    def rows(self, step: Step) -> Iterable[Row]:
        is_open = {"turn_id": self.turn_id, "id": self.call_id, "completed_at": None}
        problem = f"turn {self.turn_id} has no open call {self.call_id}"
        answer = {
            "status": self.status,
            "result": self.result,
            "error": self.result if self.status == "failed" else None,
            "completed_at": self.at_ms,
        }
        close = Update("tool_calls", is_open, answer, refusing(problem, "call_not_open"))
        return close, *consumed(step, self.consumed, self.call_id)

    def events(self, step: Step) -> Iterable[Telling]:
        has_failed = self.status == "failed"
        data = {
            "call": self.call_id,
            "status": self.status,
            "result": None if has_failed else self.result,
            "error": self.result if has_failed else None,
            "duration_s": self.duration_s,
            "exit_code": self.exit_code,
            "turn": self.turn_id,
        }
        return step.telling("tool_call_finished", data)


class ReceivesUndone(Write, frozen=True, kw_only=True):
    """Calls that only received, whose answers were lost with their session: it is unread again."""

    is_of_life = True

    turn_id: str
    received: Mapping[str, tuple[str, ...]]  # by call, the ids of the messages that it used

    def rows(self, step: Step) -> Iterable[Row]:
        for call, messages in self.received.items():
            yield from unread(step, messages, call)

    def events(self, step: Step) -> Iterable[Telling]:
        return step.telling("receives_undone", {"turn": self.turn_id, "calls": list(self.received)})


class EffectNoted(Write, frozen=True, kw_only=True):
    """An effect of a call; the step may be that of another agent than the caller."""

    effect: Effect

    def rows(self, step: Step) -> Iterable[Row]:
        return (Insert("effects", asdict(self.effect)),)


def require_turn(step: Step, turn_id: str, ledger: Ledger) -> tuple[Any, ...]:
    """Return parent and closing step of the agent's turn. Raises StoreError without such a turn."""
    fence = own_fence(step, ledger)
    if fence.turn_id == turn_id:
        return fence.parent_turn_id, fence.closed_by
    own = {"id": turn_id, "agent_id": step.agent_id}
    turn = ledger.look("turns", own, "parent_turn_id", "closed_by")
    if turn is None:
        raise StoreError(f"agent {step.agent_id} has no turn {turn_id}", code="unknown_turn")
    return turn


CALL = ("turn_id", "message_id", *AgentToolCall.__struct_fields__)


def call_values(turn_id: str, call: AgentToolCall, message_id: str | None) -> tuple[Any, ...]:
    """Return a call as its table has it: the values of the columns of `CALL`."""
    return (turn_id, message_id, *astuple(call))


def running_row(turn_id: str, call: AgentToolCall) -> dict[str, Any]:
    """Return an orchestration call as its table has it before its turn tells of it."""
    row = dict(zip(CALL, call_values(turn_id, call, None), strict=True))
    row["orchestration"] = 1
    return row
