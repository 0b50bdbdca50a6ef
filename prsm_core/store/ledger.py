"""Turns as the ledger keeps them: opened, their orchestration calls, and the closing writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.domain.turns import StopReason
from prsm_core.errors import StoreError
from prsm_core.store import agents
from prsm_core.store.codec import (
    encode,
    encode_canonical,
    encode_names,
    encode_optional,
    hash_text,
)

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from prsm_core.domain.steps import CallClose, CallOpenStep, TurnCloseStep, TurnOpenStep
    from prsm_core.domain.turns import AgentMessage, AgentToolCall, CompactionResult, TurnResult
    from prsm_core.store.known import Fence, WritingConnection

_INSERT_CALL = (
    "INSERT INTO tool_calls (turn_id, id, message_id, tool_name, params, arguments_hash, result,"
    " error, status, started_at, completed_at, sequence, orchestration, spawned_session_label)"
)
_CALL = "?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?"
_OF_RUNNING = "FROM turns WHERE id = ? AND agent_id = ? AND status = 'running'"
_OPEN_CALL = f"{_INSERT_CALL} SELECT {_CALL} {_OF_RUNNING}"
# The row of an orchestration call is there already. What was stored before the agent saw it is
# the truth; the turn adds where the call stands in it.
_MERGE_CALL = (
    f"{_INSERT_CALL} VALUES ({_CALL}) ON CONFLICT DO UPDATE SET"
    " message_id = excluded.message_id, sequence = excluded.sequence,"
    " status = iif(completed_at IS NULL, excluded.status, status),"
    " result = iif(completed_at IS NULL, excluded.result, result),"
    " error = iif(completed_at IS NULL, excluded.error, error),"
    " completed_at = coalesce(completed_at, excluded.completed_at),"
    " spawned_session_label = coalesce(excluded.spawned_session_label, spawned_session_label)"
)


def open_turn(conn: WritingConnection, step: TurnOpenStep, fence: Fence) -> None:
    """Insert the running turn with its thread row."""
    agent_id = fence.agent_id
    if step.number != fence.next_turn:
        raise StoreError(
            f"agent {agent_id} is at turn {fence.next_turn}, not {step.number}",
            code="turn_number",
        )
    if step.session_label != fence.label:
        raise _unknown_label(step.session_label, agent_id)
    depth, skip_turn_id, skip_depth = _place(conn, step)
    conn.execute(
        "INSERT INTO turns (id, parent_turn_id, turn_type, status, started_at, model, provider,"
        " role, toolset_name, tools_available, permissions_granted, source_event_id,"
        " workspace_path, agent_id, turn_no)"
        " VALUES (?, ?, ?, 'running', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            step.turn_id,
            step.parent_turn_id,
            step.turn_type,
            step.started_at_ms,
            step.model,
            step.provider,
            step.role,
            step.toolset_name,
            encode_names(step.tools_available),
            encode_names(step.permissions_granted),
            step.source_event_id,
            step.workspace_path,
            agent_id,
            step.number,
        ),
    )
    conn.execute(
        "INSERT INTO threads (turn_id, parent_turn_id, depth, skip_turn_id, skip_depth)"
        " VALUES (?, ?, ?, ?, ?)",
        (step.turn_id, step.parent_turn_id, depth, skip_turn_id, skip_depth),
    )
    agents.count_turn(conn, agent_id, step.number)


def open_call(conn: sqlite3.Connection, step: CallOpenStep, agent_id: str) -> None:
    """Insert the row of an orchestration call; its turn must be running."""
    row = _call_row(step.turn_id, step.call, None, orchestration=True)
    if not conn.execute(_OPEN_CALL, (*row, step.turn_id, agent_id)).rowcount:
        _require_own(conn, step.turn_id, agent_id)
        raise StoreError(f"turn {step.turn_id} is closed", code="turn_closed")


def close_call(conn: sqlite3.Connection, close: CallClose, agent_id: str) -> None:
    """Store the answer of an orchestration call, once."""
    done = conn.execute(
        "UPDATE tool_calls SET status = ?, result = ?, error = ?, completed_at = ?"
        " WHERE turn_id = ? AND id = ? AND completed_at IS NULL"
        " AND EXISTS (SELECT 1 FROM turns AS t WHERE t.id = turn_id AND t.agent_id = ?)",
        (
            close.status,
            close.result,
            close.result if close.status == "failed" else None,
            close.at_ms,
            close.turn_id,
            close.call_id,
            agent_id,
        ),
    )
    if not done.rowcount:
        _require_own(conn, close.turn_id, agent_id)
        raise StoreError(
            f"turn {close.turn_id} has no open call {close.call_id}", code="call_not_open"
        )


def finish_turn(conn: sqlite3.Connection, step: TurnCloseStep, agent_id: str) -> str | None:
    """Do the first of the eight writes that end a turn: its own row.

    Returns the step that closed the turn before, if one did; then nothing is written.
    """
    if _update_turn(conn, step, agent_id):
        return None
    parent_turn_id, closed_by = _require_own(conn, step.turn_id, agent_id)
    if parent_turn_id != step.parent_turn_id:
        raise StoreError(
            f"turn {step.turn_id} was opened under {parent_turn_id}, not {step.parent_turn_id}",
            code="wrong_parent",
        )
    return closed_by


def close_turn(conn: sqlite3.Connection, step: TurnCloseStep, agent_id: str) -> None:
    """Do the other seven writes that end a turn, in the order of the specification."""
    _insert_messages(conn, step)
    _merge_calls(conn, step)
    if step.parent_turn_id is not None:
        conn.execute("UPDATE turns SET has_children = 1 WHERE id = ?", (step.parent_turn_id,))
    _total_thread(conn, step)
    _move_session(conn, step, agent_id)
    if step.result.compaction is not None:
        _insert_compaction(conn, step.turn_id, step.result.compaction)


def _require_own(
    conn: sqlite3.Connection, turn_id: str, agent_id: str
) -> tuple[str | None, str | None]:
    """Return the parent of the agent's turn and the step that closed it."""
    row: tuple[str | None, str | None] | None = conn.execute(
        "SELECT parent_turn_id, closed_by FROM turns WHERE id = ? AND agent_id = ?",
        (turn_id, agent_id),
    ).fetchone()
    if row is None:
        raise StoreError(f"agent {agent_id} has no turn {turn_id}", code="unknown_turn")
    return row


def _unknown_label(label: str, agent_id: str) -> StoreError:
    return StoreError(
        f"{label} is not the ledger session of agent {agent_id}", code="unknown_session"
    )


def _place(conn: sqlite3.Connection, step: TurnOpenStep) -> tuple[int, str, int]:
    """Return depth, jump target and its depth of a new turn (a skew-binary jump pointer)."""
    if step.parent_turn_id is None:
        return 0, step.turn_id, 0
    row = conn.execute(
        "SELECT p.depth, p.skip_depth, s.skip_turn_id, s.skip_depth FROM threads AS p"
        " JOIN threads AS s ON s.turn_id = p.skip_turn_id WHERE p.turn_id = ?",
        (step.parent_turn_id,),
    ).fetchone()
    if row is None:
        raise StoreError(f"there is no parent turn {step.parent_turn_id}", code="unknown_turn")
    depth, skip_depth, far_turn_id, far_depth = row
    if depth - skip_depth == skip_depth - far_depth:
        return depth + 1, far_turn_id, far_depth
    return depth + 1, step.parent_turn_id, depth


def _update_turn(conn: sqlite3.Connection, step: TurnCloseStep, agent_id: str) -> bool:
    """Close the turn's row; False when the agent has no such turn that is not closed yet."""
    result, usage, spent = step.result, step.result.usage, step.result.spent
    calls = list({call.id for call in result.tool_calls})
    answers = [m.id for m in result.messages if m.role == "assistant"]
    done = conn.execute(
        "UPDATE turns SET status = ?, completed_at = ?, permissions_used = ?, input_tokens = ?,"
        " output_tokens = ?, cached_input_tokens = ?, cache_write_tokens = ?,"
        " reasoning_tokens = ?, total_tokens = ?, query_message_ids = ?, response_message_id = ?,"
        " tool_call_count = ? + (SELECT count(*) FROM tool_calls AS c WHERE c.turn_id = turns.id"
        " AND c.id NOT IN (SELECT value FROM json_each(?))),"  # orchestration calls left out
        " stop_reason = ?, error = ?, cost_usd = ?, duration_ms = ?, closed_by = ?,"
        " usage_provenance = ?, cost_provenance = ?"
        " WHERE id = ? AND agent_id = ? AND parent_turn_id IS ? AND closed_by IS NULL",
        (
            _status(result),
            step.completed_at_ms,
            encode_names(result.permissions_used),
            usage.input_tokens,
            usage.output_tokens,
            usage.cached_input_tokens,
            usage.cache_write_tokens,
            usage.reasoning_tokens,
            usage.total_tokens,
            encode([m.id for m in result.messages if m.role in {"user", "system"}]),
            answers[-1] if answers else None,
            len(calls),
            encode(calls),
            result.stop_reason.value,
            encode_optional(result.error and result.error.to_dict()),
            result.cost_usd,
            result.duration_ms,
            step.step_id,
            spent.tokens_from.value,
            spent.cost_from.value,
            step.turn_id,
            agent_id,
            step.parent_turn_id,
        ),
    )
    return bool(done.rowcount)


def _status(result: TurnResult) -> str:
    if result.stop_reason is StopReason.ABORTED:
        return "aborted"
    failed = result.error is not None or result.stop_reason in {
        StopReason.ERROR,
        StopReason.TIMEOUT,
    }
    return "failed" if failed else "completed"


def _insert_messages(conn: sqlite3.Connection, step: TurnCloseStep) -> None:
    context = encode(
        {
            "session_label": step.session_label,
            "run_id": step.run_id,
            "incarnation": step.incarnation,
        }
    )
    conn.executemany(
        "INSERT INTO messages (turn_id, id, role, content, sequence, created_at, thinking,"
        " tool_call_id, context_json) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                step.turn_id,
                message.id,
                message.role,
                message.content,
                message.sequence,
                message.created_at,
                message.thinking,
                message.tool_call_id,
                context if message.role in {"user", "system"} else None,
            )
            for message in step.result.messages
        ],
    )


def _merge_calls(conn: sqlite3.Connection, step: TurnCloseStep) -> None:
    spoken = [m for m in step.result.messages if m.role == "assistant"]
    conn.executemany(
        _MERGE_CALL,
        [
            _call_row(step.turn_id, call, _caller(spoken, call), orchestration=call.orchestration)
            for call in step.result.tool_calls
        ],
    )


def _caller(spoken: Sequence[AgentMessage], call: AgentToolCall) -> str | None:
    """Return the assistant message that made the call: the last one begun before it.

    By time, since the sequences of messages and calls need not be one numbering.
    """
    for message in reversed(spoken):
        if message.created_at <= call.started_at:
            return message.id
    return None


def _call_row(
    turn_id: str, call: AgentToolCall, message_id: str | None, *, orchestration: bool
) -> tuple[object, ...]:
    params = encode_canonical(call.params)
    return (
        turn_id,
        call.id,
        message_id,
        call.tool_name,
        params,
        hash_text(params),
        call.result,
        call.error,
        call.status,
        call.started_at,
        call.completed_at,
        call.sequence,
        orchestration,
        call.spawned_session_label,
    )


def _total_thread(conn: sqlite3.Connection, step: TurnCloseStep) -> None:
    """Set the tokens of the whole line up to this turn, as far as they are known."""
    conn.execute(
        "UPDATE threads SET total_tokens = (SELECT sum(n) FROM (SELECT ? AS n UNION ALL"
        " SELECT total_tokens FROM threads WHERE turn_id = ?)) WHERE turn_id = ?",
        (step.result.usage.known_total, step.parent_turn_id, step.turn_id),
    )


def _move_session(conn: sqlite3.Connection, step: TurnCloseStep, agent_id: str) -> None:
    done = conn.execute(
        "UPDATE sessions SET thread_id = ?, updated_at = ? WHERE label = ? AND agent_id = ?",
        (step.turn_id, step.completed_at_ms, step.session_label, agent_id),
    )
    if not done.rowcount:
        raise _unknown_label(step.session_label, agent_id)
    conn.execute(
        "INSERT INTO session_history (session_label, thread_id, changed_at) VALUES (?, ?, ?)",
        (step.session_label, step.turn_id, step.completed_at_ms),
    )


def _insert_compaction(
    conn: sqlite3.Connection, turn_id: str, compaction: CompactionResult
) -> None:
    conn.execute(
        "INSERT INTO compactions (turn_id, summary, summarized_through_turn_id,"
        " first_kept_turn_id, turns_summarized, model, provider, tokens_before, tokens_after,"
        " summary_tokens, summarization_input_tokens, summarization_output_tokens, duration_ms,"
        ' "trigger") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)',
        (
            turn_id,
            compaction.summary,
            compaction.summarized_through_turn_id,
            compaction.first_kept_turn_id,
            compaction.turns_summarized,
            compaction.model,
            compaction.provider,
            compaction.tokens_before,
            compaction.tokens_after,
            compaction.summary_tokens,
            compaction.summarization_input_tokens,
            compaction.summarization_output_tokens,
            compaction.duration_ms,
            compaction.trigger,
        ),
    )
