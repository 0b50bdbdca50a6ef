"""A turn that nobody has closed: what the log tells of it, beside the rows of its calls.

Messages and vendors' calls become rows only when their turn is closed.
"""

from __future__ import annotations

from sys import intern
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from prsm_core.domain.sessions import CallState, TurnState
from prsm_core.domain.turns import AgentMessage, AgentToolCall, Effect
from prsm_core.domain.usage import Provenance, Spent, TokenUsage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from prsm_core.domain.rows import Values

# The events that are taken.
TOLD = (
    *("turn_started", "message_completed", "tool_call_started", "tool_call_finished"),
    "receives_undone",
)
_COUNTS = TokenUsage.__struct_fields__


class ToldTurn:
    """What the events of an agent tell of its turn, taken in their order."""

    def __init__(self, turn_id: str) -> None:
        self._turn_id = turn_id
        self._messages: list[AgentMessage] = []
        self._calls: dict[tuple[str, bool], CallState] = {}  # by id, and whether it is ours
        self._last_heard = 0
        self._has_begun = False

    def take(self, seq: int, kind: str, at: float, data: Mapping[str, Any]) -> None:
        """Take the next event; those before the turn's own beginning are of others."""
        match kind:
            case "turn_started":
                self._has_begun |= data["turn"] == self._turn_id
            case _ if not self._has_begun:
                pass
            case "message_completed":
                self._message(seq, at, data)
            case _ if data.get("turn") not in {None, self._turn_id}:
                pass  # a call of another turn, which may have the same id
            case "tool_call_started":
                self._call_began(seq, at, data)
            case "tool_call_finished":
                self._call_ended(seq, at, data)
            case "receives_undone":
                for key in ((call, True) for call in data.get("calls") or ()):
                    if key in self._calls:
                        self._calls[key] = replace(self._calls[key], is_undone=True)

    def answers(self) -> dict[str, int]:
        """Return the orchestration calls that have ended, and the number of the event of each."""
        return {
            call_id: told.answered_at
            for (call_id, is_ours), told in self._calls.items()
            if is_ours and told.answered_at is not None
        }

    def build(self, row: Values, ours: Mapping[str, CallState]) -> TurnState:
        """Return the turn of a row; `ours` are its orchestration calls, by their ids."""
        calls: list[CallState] = []
        for (call_id, is_ours), told in self._calls.items():
            known = ours.get(call_id) if is_ours else told
            if known is None:
                continue  # of an earlier turn that is not closed either
            state = replace(
                told,
                call=replace(known.call, sequence=len(calls) + 1),
                effects=known.effects,
                consumed=() if told.is_undone else known.consumed,
            )
            calls.append(state)
        return TurnState(
            turn_id=row["id"],
            number=row["turn_no"],
            parent_turn_id=row["parent_turn_id"],
            started_at=row["started_at"],
            messages=tuple(self._messages),
            calls=tuple(calls),
            spent=read_spent(row),
            last_heard=self._last_heard,
        )

    def _message(self, seq: int, at: float, data: Mapping[str, Any]) -> None:
        if data["turn"] != self._turn_id:
            return
        message = AgentMessage(
            id=data["id"],
            role=intern(data["role"]),
            content=data["text"],
            sequence=len(self._messages) + 1,
            created_at=_ms(at),
            thinking=data.get("thinking"),
            again=bool(data.get("again")),
        )
        self._messages.append(message)
        if message.role == "assistant":
            self._last_heard = seq

    def _call_began(self, seq: int, at: float, data: Mapping[str, Any]) -> None:
        self._last_heard = seq
        key = data["call"], bool(data.get("orchestration"))
        self._calls.pop(key, None)  # an id may come again: then the last one counts
        call = AgentToolCall(
            id=data["call"],
            tool_name=intern(data["tool"]),
            params=data["arguments"],
            status="running",
            started_at=_ms(at),
            sequence=0,
        )
        self._calls[key] = CallState(call=call, response=data.get("response") or 0)

    def _call_ended(self, seq: int, at: float, data: Mapping[str, Any]) -> None:
        """Take the end of a call of ours, which names its turn, or of one of the vendor's."""
        key = data["call"], data.get("turn") is not None
        told = self._calls.get(key)
        if told is None or told.answered_at is not None:
            return
        status, error = data["status"], data.get("error")
        call = replace(
            told.call,
            status=status if status in {"completed", "unknown"} else "failed",
            result=data.get("result"),
            error=error or ("denied" if status == "denied" else None),
            completed_at=_ms(at),
        )
        self._calls[key] = replace(told, call=call, answered_at=seq)


def build_call(
    row: Values, effects: Iterable[Effect], consumed: Iterable[str], *, is_answered: bool
) -> CallState:
    """Return an orchestration call of an open turn; its row may tell what came later."""
    call = AgentToolCall(
        id=row["id"],
        tool_name=intern(row["tool_name"]),
        params=row["params"],
        status=row["status"] if is_answered else "running",
        started_at=row["started_at"],
        sequence=0,
        result=row["result"] if is_answered else None,
        error=row["error"] if is_answered else None,
        completed_at=row["completed_at"] if is_answered else None,
        orchestration=True,
    )
    return CallState(call=call, effects=tuple(effects), consumed=tuple(consumed))


def build_effect(row: Values) -> Effect:
    """Return an effect from its row."""
    return Effect(**{name: row[name] for name in Effect.__struct_fields__})


def read_spent(row: Values) -> Spent | None:
    """Return what the row of a turn says it used; None where nothing was told."""
    if row["usage_provenance"] is None:
        return None
    return Spent.of_turn(
        TokenUsage(**{name: row[name] for name in _COUNTS}),
        row["cost_usd"],
        Provenance(row["usage_provenance"]),
        Provenance(row["cost_provenance"]),
    )


def _ms(at: float) -> int:
    return int(at * 1000)
