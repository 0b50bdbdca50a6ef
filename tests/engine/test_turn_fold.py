"""A turn folds any stream of events into one result."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from prsm_core.domain.turns import (
    RESULT_LIMIT,
    AgentError,
    AssistantMessage,
    ErrorKind,
    Notice,
    StepEnded,
    StopReason,
    TextDelta,
    ThinkingDelta,
    ToolCallFinished,
    ToolCallStarted,
    TurnEnded,
    UsageReported,
)
from prsm_core.domain.usage import TokenUsage
from prsm_core.engine.turns.fold import UNTOLD, TurnFold

IDS = st.sampled_from(["a", "b", "c"])
COUNT = st.none() | st.integers(0, 1000)
USAGE = st.builds(TokenUsage, input_tokens=COUNT, output_tokens=COUNT, total_tokens=COUNT)
EVENT = st.one_of(
    st.builds(TextDelta, st.text(max_size=5)),
    st.builds(ThinkingDelta, st.text(max_size=5)),
    st.builds(AssistantMessage, st.text(max_size=5), st.none() | st.text(max_size=5)),
    st.builds(ToolCallStarted, IDS, st.just("Bash"), st.just({})),
    st.builds(
        ToolCallFinished,
        IDS,
        st.sampled_from(["completed", "failed", "denied", "odd"]),
        st.none() | st.text(max_size=5),
    ),
    st.builds(UsageReported, USAGE, st.none() | st.integers(0, 8).map(float)),
    st.builds(Notice, st.just("info"), st.text(max_size=5)),
    st.just(StepEnded()),
)
END = st.builds(TurnEnded, st.sampled_from(StopReason))


def new_fold():
    ids, time = itertools.count(), itertools.count(1000)
    return TurnFold(
        turn_id="t",
        number=1,
        started_at_ms=next(time),
        new_id=lambda: f"m{next(ids)}",
        now_ms=lambda: next(time),
    )


@given(before=st.lists(EVENT, max_size=40), end=st.none() | END, after=st.lists(EVENT, max_size=10))
def test_any_stream_gives_one_result(before, end, after):
    fold = new_fold()
    for event in (*before, *([] if end is None else [end, *after])):
        fold.fold(event)
    result = fold.result()
    counted = [*before, *(after if end is not None else [])]
    assert result.usage == sum(
        (e.usage for e in counted if isinstance(e, UsageReported)), TokenUsage()
    )
    costs = [e.cost_usd for e in counted if isinstance(e, UsageReported) and e.cost_usd is not None]
    assert result.cost_usd == (sum(costs) if costs else None)
    assert result.stop_reason is (StopReason.ERROR if end is None else end.stop_reason)
    assert all(call.completed_at is not None for call in result.tool_calls)
    assert {call.status for call in result.tool_calls} <= {"completed", "failed", "unknown"}
    assert {call.id for call in result.tool_calls} == {
        event.call_id for event in before if isinstance(event, ToolCallStarted)
    }
    assert [m.sequence for m in result.messages] == list(range(1, len(result.messages) + 1))
    said = [event.text for event in before if isinstance(event, AssistantMessage)]
    assert [m.content for m in result.messages][: len(said)] == said
    assert result.duration_ms > 0


@given(events=st.lists(EVENT, max_size=40))
def test_folding_twice_gives_the_same(events):
    fold = new_fold()
    for event in (*events, TurnEnded(StopReason.END_TURN)):
        fold.fold(event)
    first, second = fold.result(), fold.result()
    assert first.messages == second.messages
    assert first.usage == second.usage
    assert first.last_text == second.last_text


def test_what_the_model_was_writing_when_the_turn_ended_is_kept():
    fold = new_fold()
    fold.add_message("user", "go")
    fold.fold(AssistantMessage("One.", "hm"))
    fold.fold(TextDelta("Tw"))
    fold.fold(TextDelta("o"))
    assert fold.partial_text == "One.\nTwo"
    result = fold.result()
    assert [m.content for m in result.messages] == ["go", "One.", "Two"]
    assert result.last_text == "Two"
    assert fold.partial_text == "One.\nTwo"


def test_a_message_takes_the_place_of_its_deltas():
    fold = new_fold()
    fold.fold(TextDelta("He"))
    fold.fold(TextDelta("llo"))
    fold.fold(AssistantMessage("Hello"))
    assert fold.partial_text == "Hello"
    assert [m.content for m in fold.result().messages] == ["Hello"]


def test_a_stream_without_an_end_is_an_error_and_its_calls_have_failed():
    fold = new_fold()
    fold.fold(ToolCallStarted("a", "Bash", {"command": "make"}))
    [call] = fold.open_calls()
    assert call.status == "running"
    result = fold.result()
    assert result.error.message == "the provider's stream ended without a turn end"
    assert [(c.status, c.error) for c in result.tool_calls] == [("unknown", UNTOLD)]


def test_an_end_keeps_its_error():
    fold = new_fold()
    error = AgentError(kind=ErrorKind.RATE_LIMIT, message="slow down", retryable=True)
    fold.fold(TurnEnded(StopReason.ERROR, error))
    fold.fold(TurnEnded(StopReason.END_TURN))
    assert fold.result().error is error


def test_a_long_result_is_cut_with_a_mark():
    fold = new_fold()
    fold.fold(ToolCallStarted("a", "Bash", {}))
    fold.fold(ToolCallFinished("a", "completed", "x" * (RESULT_LIMIT + 1)))
    [call] = fold.result().tool_calls
    assert call.result.startswith("x" * RESULT_LIMIT)
    assert call.result.endswith("[cut by prsm at 64 KiB]")
    assert fold.call_seconds("a") == 0.001
    assert fold.call_seconds("b") is None
