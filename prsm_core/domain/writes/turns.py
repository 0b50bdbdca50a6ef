"""Turns: opened before their provider is called, closed by the eight writes of a turn's end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict, astuple, replace

from prsm_core.domain.rows import (
    Amend,
    Form,
    Insert,
    Merge,
    MergeForm,
    Place,
    Several,
    Total,
    Update,
)
from prsm_core.domain.steps import Write
from prsm_core.domain.turns import AgentMessage, StopReason
from prsm_core.domain.usage import TokenUsage
from prsm_core.domain.writes.agents import own_fence
from prsm_core.domain.writes.calls import CALL, call_values, require_turn
from prsm_core.domain.writes.messages import consumed
from prsm_core.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from prsm_core.domain.rows import Fence, Ledger, Row
    from prsm_core.domain.steps import Step, Telling
    from prsm_core.domain.turns import AgentToolCall, TurnResult
    from prsm_core.domain.usage import Spent

_FAILED = frozenset({StopReason.ERROR, StopReason.TIMEOUT})
_USER = frozenset({"user", "system"})  # roles of what a turn was told

# How the rows of a turn are written.
_OPENED = Form(
    "turns",
    (
        *("id", "parent_turn_id", "turn_type", "status", "started_at", "model", "provider"),
        *("role", "toolset_name", "tools_available", "permissions_granted", "source_event_id"),
        *("workspace_path", "agent_id", "turn_no"),
    ),
)
_CLOSED = Form(
    "turns",
    (
        *("status", "completed_at", "permissions_used", *TokenUsage.__struct_fields__),
        *("query_message_ids", "response_message_id", "stop_reason", "error", "cost_usd"),
        *("duration_ms", "closed_by", "usage_provenance", "cost_provenance"),
    ),
    key=("id",),
    counted="tool_call_count",
)
_PARENT = Form("turns", ("has_children",), key=("id",))
_HEAD = Form("sessions", ("thread_id", "updated_at"), key=("label", "agent_id"))
_HISTORY = Form("session_history", ("session_label", "thread_id", "changed_at"))
# All of a message but `again`.
_MESSAGES = Form("messages", ("turn_id", *AgentMessage.__struct_fields__[:-1], "context_json"))
_CALLS = MergeForm(
    "tool_calls",
    CALL,
    key=("turn_id", "id"),
    newer=("message_id", "sequence"),
    until="completed_at",
    open=("status", "result", "error", "completed_at"),
    known=("spawned_session_label",),
)


class ClosedBeforeError(Exception):
    """The turn was closed by another step, whose result stands."""

    def __init__(self, step_id: str) -> None:
        super().__init__(step_id)
        self.step_id = step_id


class TurnOpened(Write, frozen=True, kw_only=True):
    """A turn that runs; the messages used as its prompt are consumed."""

    is_of_life = True

    turn_id: str
    number: int  # 1, 2 … per agent, over all incarnations
    parent_turn_id: str | None
    session_label: str
    model: str
    provider: str
    role: str  # manager | worker | unified
    toolset_name: str
    tools_available: tuple[str, ...]
    permissions_granted: tuple[str, ...]
    workspace_path: str
    started_at_ms: int
    source_event_id: str | None = None
    consumed: tuple[str, ...] = ()
    turn_type: str = "normal"  # normal | compaction

    def guard(self, step: Step, ledger: Ledger) -> None:
        fence = own_fence(step, ledger)
        if self.number != fence.next_turn:
            raise StoreError(
                f"agent {fence.agent_id} is at turn {fence.next_turn}, not {self.number}",
                code="turn_number",
            )
        _check_label(self.session_label, fence)
        parent_id = self.parent_turn_id
        is_known = parent_id is None or parent_id == fence.turn_id
        if not is_known and ledger.look("turns", {"id": parent_id}, "id") is None:
            raise StoreError(f"there is no parent turn {parent_id}", code="unknown_turn")
        opened = replace(
            fence,
            next_turn=self.number + 1,
            turn_id=self.turn_id,
            parent_turn_id=parent_id,
            closed_by=None,
        )
        ledger.change(opened)

    def rows(self, step: Step) -> Iterable[Row]:
        row = (
            self.turn_id,
            self.parent_turn_id,
            self.turn_type,
            "running",
            self.started_at_ms,
            self.model,
            self.provider,
            self.role,
            self.toolset_name,
            self.tools_available,
            self.permissions_granted,
            self.source_event_id,
            self.workspace_path,
            step.agent_id,
            self.number,
        )
        return (
            Several(_OPENED, (row,)),
            Place(self.turn_id, self.parent_turn_id),
            Update("agents", {"agent_id": step.agent_id}, {"next_turn": self.number + 1}),
            *consumed(step, self.consumed, self.turn_id),
        )

    def events(self, step: Step) -> Iterable[Telling]:
        return step.telling("turn_started", {"turn": self.turn_id, "n": self.number})


class TurnMetered(Write, frozen=True, kw_only=True):
    """What a running turn has used so far: a crash loses no more than what came after it."""

    turn_id: str
    spent: Spent

    def rows(self, step: Step) -> Iterable[Row]:
        own = {"id": self.turn_id, "agent_id": step.agent_id, "closed_by": None}
        return (Update("turns", own, spent_columns(self.spent)),)


class TurnClosed(Write, frozen=True, kw_only=True):
    """The end of a turn, maybe after the agent's end. Closing it again changes nothing."""

    texts = ("result", "window")

    turn_id: str
    parent_turn_id: str | None
    session_label: str
    result: TurnResult
    completed_at_ms: int
    resume_token: str | None = None
    window: Mapping[str, Any] | None = None  # how full the model's window is

    def guard(self, step: Step, ledger: Ledger) -> None:
        """Refuse a turn that is not the agent's. Raises ClosedBeforeError for one that is over."""
        parent_turn_id, closed_by = require_turn(step, self.turn_id, ledger)
        if parent_turn_id != self.parent_turn_id:
            raise StoreError(
                f"turn {self.turn_id} was opened under {parent_turn_id}, not {self.parent_turn_id}",
                code="wrong_parent",
            )
        if closed_by is not None:
            raise ClosedBeforeError(closed_by)
        fence = own_fence(step, ledger)
        _check_label(self.session_label, fence)
        if fence.turn_id == self.turn_id:
            ledger.change(replace(fence, closed_by=step.step_id))

    def rows(self, step: Step) -> Iterable[Row]:
        """Return the eight writes of the specification; the turn comes when its calls are there."""
        result, turn_id, at = self.result, self.turn_id, self.completed_at_ms
        if result.messages:
            yield self._messages(step)
        if result.tool_calls:
            yield self._calls()
        yield Amend(_CLOSED, self._turn(step))
        if self.parent_turn_id is not None:
            yield Amend(_PARENT, (1, self.parent_turn_id))
        yield Total(turn_id, self.parent_turn_id, result.usage.known_total)
        yield Amend(_HEAD, (turn_id, at, self.session_label, step.agent_id))
        yield Several(_HISTORY, ((self.session_label, turn_id, at),))
        if result.compaction is not None:
            yield Insert("compactions", {"turn_id": turn_id, **asdict(result.compaction)})
        if self.resume_token is not None:
            thread = {"resume_token": self.resume_token}
            yield Update("agents", {"agent_id": step.agent_id}, thread)

    def events(self, step: Step) -> Iterable[Telling]:
        result = self.result
        data = {
            "turn": self.turn_id,
            "stop_reason": str(result.stop_reason),
            "usage": result.usage.to_dict(),
            "error": None if result.error is None else result.error.to_dict(),
            "cost_usd": result.cost_usd,
            "provenance": result.spent.provenance,
            "context": self.window,
        }
        return step.telling("turn_finished", data)

    def _turn(self, step: Step) -> tuple[Any, ...]:
        result, spent = self.result, self.result.spent
        return (
            _status(result),
            self.completed_at_ms,
            result.permissions_used,
            *astuple(result.usage),
            [message.id for message in result.messages if message.role in _USER],
            next((m.id for m in reversed(result.messages) if m.role == "assistant"), None),
            str(result.stop_reason),
            None if result.error is None else result.error.to_dict(),
            result.cost_usd,
            result.duration_ms,
            step.step_id,
            str(spent.tokens_from),
            str(spent.cost_from),
            self.turn_id,
        )

    def _messages(self, step: Step) -> Row:
        context = {
            "session_label": self.session_label,
            "run_id": step.run_id,
            "incarnation": step.incarnation,
        }
        turn_id = self.turn_id
        rows = [
            (turn_id, *astuple(message)[:-1], context if message.role in _USER else None)
            for message in self.result.messages
        ]
        return Several(_MESSAGES, rows)

    def _calls(self) -> Row:
        """Return the calls as the turn tells them.

        An orchestration call has a row: what was stored before the agent saw it is the truth, and
        the turn adds where the call stands in it.
        """
        spoken = [message for message in self.result.messages if message.role == "assistant"]
        turn_id = self.turn_id
        rows = [
            call_values(turn_id, call, _caller(spoken, call)) for call in self.result.tool_calls
        ]
        return Merge(_CALLS, rows)


def spent_columns(spent: Spent) -> dict[str, Any]:
    """Return what a turn that runs has used, as its row has it."""
    return {
        **spent.usage.to_dict(),
        "cost_usd": spent.cost_usd,
        "usage_provenance": str(spent.tokens_from),
        "cost_provenance": str(spent.cost_from),
    }


def _check_label(label: str, fence: Fence) -> None:
    if label != fence.label:
        raise StoreError(
            f"{label} is not the ledger session of agent {fence.agent_id}", code="unknown_session"
        )


def _status(result: TurnResult) -> str:
    if result.stop_reason is StopReason.ABORTED:
        return "aborted"
    failed = result.error is not None or result.stop_reason in _FAILED
    return "failed" if failed else "completed"


def _caller(spoken: Sequence[AgentMessage], call: AgentToolCall) -> str | None:
    """Return the assistant message that made the call: the last begun before it, by time."""
    before = (one.id for one in reversed(spoken) if one.created_at <= call.started_at)
    return next(before, None)
