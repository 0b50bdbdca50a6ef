"""Turns: the shapes of the specification, and results that are cut honestly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prsm_core import AgentError, AgentMessage, AssembledContext, ErrorKind, StopReason, TokenUsage
from prsm_core.domain.turns import (
    CUT_MARK,
    RESULT_LIMIT,
    AgentToolCall,
    CompactionResult,
    TurnResult,
    cut_result,
)
from prsm_core.domain.writes.calls import CALL, call_values, running_row

if TYPE_CHECKING:
    from prsm_core.domain.record import Record


def names(record: type[Record]) -> set[str]:
    return set(record.__struct_fields__)


@given(st.text(), st.integers(-2, 2))
def test_a_result_is_cut_with_a_mark_exactly_where_it_exceeds_the_limit(seed, offset):
    text = (seed or "x") * (RESULT_LIMIT // len(seed or "x") + 2)
    text = text[: RESULT_LIMIT + offset]
    if len(text) <= RESULT_LIMIT:
        assert cut_result(text) == text
    else:
        assert cut_result(text) == text[:RESULT_LIMIT] + CUT_MARK


def message(role: str, content: str) -> AgentMessage:
    return AgentMessage(id=content, role=role, content=content, sequence=0, created_at=0)


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([], ""),
        ([("user", "do it")], ""),
        ([("assistant", "first"), ("assistant", "last"), ("user", "more")], "last"),
        ([("assistant", "said"), ("assistant", "  \n")], "said"),
    ],
)
def test_the_last_text_is_the_last_thing_the_assistant_said(messages, expected):
    turn = TurnResult(
        messages=tuple(message(role, text) for role, text in messages),
        tool_calls=(),
        usage=TokenUsage(),
        stop_reason=StopReason.END_TURN,
        duration_ms=0,
    )
    assert turn.last_text == expected


@pytest.mark.requirement("N1")
def test_a_context_has_three_layers():
    assert names(AssembledContext) >= {"system_prompt", "history", "current_message"}


def test_a_message_has_the_specified_fields():
    specified = {"id", "role", "content", "sequence", "created_at", "thinking"}
    assert names(AgentMessage) - {"again"} == specified, "whether it repeats others is our own"


@pytest.mark.requirement("N9")
def test_a_tool_call_has_the_specified_fields():
    specified = {"status", "started_at", "completed_at", "sequence", "spawned_session_label"}
    assert names(AgentToolCall) >= specified


@pytest.mark.requirement("N11")
def test_there_are_six_reasons_to_stop():
    reasons = ["end_turn", "max_tokens", "tool_use", "timeout", "aborted", "error"]
    assert [reason.value for reason in StopReason] == reasons


@pytest.mark.requirement("N12")
def test_an_error_is_of_seven_kinds_and_says_whether_trying_again_can_help():
    kinds = {
        "context_overflow",
        "auth_failure",
        "rate_limit",
        "model_error",
        "timeout",
        "compaction_failure",
        "unknown",
    }
    assert {kind.value for kind in ErrorKind} == kinds
    error = AgentError(kind=ErrorKind.RATE_LIMIT, message="slow down", retryable=True)
    assert error.to_dict() == {
        "kind": "rate_limit",
        "message": "slow down",
        "retryable": True,
        "retry_after_s": None,
    }


def test_an_error_is_not_worth_a_retry_unless_it_says_so():
    assert not AgentError(kind=ErrorKind.UNKNOWN, message="?").retryable


@pytest.mark.requirement("N13")
def test_a_compaction_has_the_specified_fields():
    specified = {
        "summary",
        "summarized_through_turn_id",
        "first_kept_turn_id",
        "turns_summarized",
        "model",
        "tokens_before",
        "tokens_after",
        "summary_tokens",
        "summarization_input_tokens",
        "summarization_output_tokens",
        "duration_ms",
        "trigger",
    }
    assert names(CompactionResult) >= specified


def test_a_turn_result_has_the_specified_fields():
    specified = {
        "messages",
        "tool_calls",
        "usage",
        "stop_reason",
        "duration_ms",
        "error",
        "compaction",
    }
    assert names(TurnResult) >= specified


def test_a_call_is_a_row_of_its_columns_in_their_order():
    own = [name for name in CALL if name not in {"turn_id", "message_id"}]
    told: dict[str, Any] = {name: f"its {name}" for name in own}
    call = AgentToolCall(**{**told, "orchestration": True})
    row = {**told, "turn_id": "t1", "message_id": "m1", "orchestration": 1}
    values = call_values("t1", call, "m1")
    assert values == tuple(row[name] for name in CALL)  # a turn's end tells no names
    assert running_row("t1", call) == {**row, "message_id": None}
