"""The lines of `codex exec --json`, as events."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prsm_codex.exec_session import ExecTranslator
from prsm_testing import with_odd_values

from prsm_core.domain.turns import (
    AssistantMessage,
    ErrorKind,
    Notice,
    ToolCallFinished,
    ToolCallStarted,
    UsageReported,
)
from prsm_core.domain.usage import TokenUsage
from prsm_core.kit import read_object

THREAD = {"type": "thread.started", "thread_id": "t1"}
COMMAND = {
    "id": "item_1",
    "type": "command_execution",
    "command": "/bin/bash -lc 'ls; exit 3'",
    "aggregated_output": "a\n",
    "exit_code": 3,
    "status": "failed",
}
USAGE = {
    "input_tokens": 100,
    "cached_input_tokens": 10,
    "cache_write_input_tokens": 0,
    "output_tokens": 20,
    "reasoning_output_tokens": 5,
}


def item(kind, **fields):
    return {"type": kind, "item": fields}


def fed(*lines):
    translator = ExecTranslator()
    return translator, [event for line in lines for event in translator.feed(line)]


def test_a_message_carries_the_thinking_before_it():
    _, events = fed(
        item("item.completed", id="item_1", type="reasoning", text="Hm."),
        item("item.completed", id="item_2", type="agent_message", text="Hello"),
    )
    assert events == [AssistantMessage("Hello", thinking="Hm.")]


def test_a_command_is_the_text_the_model_wrote_and_its_id_is_unique():
    started = {**COMMAND, "exit_code": None, "status": "in_progress"}
    translator, events = fed(
        THREAD, item("item.started", **started), item("item.completed", **COMMAND)
    )
    assert events == [
        ToolCallStarted("t1/item_1", "Bash", {"command": "ls; exit 3"}),
        ToolCallFinished("t1/item_1", "failed", result="a\n", error="exit code 3", exit_code=3),
    ]
    assert translator.began == ["Bash ls; exit 3"]


def test_a_change_that_is_told_only_when_it_is_done_has_begun_too():
    change = {"path": "/w/a", "kind": "update"}
    translator, events = fed(
        item(
            "item.completed", id="item_1", type="file_change", changes=[change], status="completed"
        )
    )
    started, finished = events
    assert (started.tool, started.arguments["paths"]) == ("Edit", ["/w/a"])
    assert finished.status == "completed"
    assert translator.began == ["Edit"]


def test_the_orchestration_tools_are_no_tools_of_the_vendor_and_others_are():
    call = {"type": "mcp_tool_call", "tool": "find", "arguments": {"q": 1}, "status": "completed"}
    result = {"content": [{"type": "text", "text": "found"}]}
    translator, events = fed(
        THREAD,
        item("item.started", **call, id="item_1", server="prsm"),
        item("item.completed", **call, id="item_1", server="prsm", result=result),
        item("item.completed", **call, id="item_2", server="docs", result=result),
    )
    assert events == [
        ToolCallStarted("t1/item_2", "mcp__docs__find", {"q": 1}),
        ToolCallFinished("t1/item_2", "completed", result="found"),
    ]
    assert translator.has_acted


@pytest.mark.parametrize(("status", "completing"), [("completed", True), ("failed", False)])
def test_task_complete_counts_when_it_was_accepted(status, completing):
    done = {"type": "mcp_tool_call", "server": "prsm", "tool": "task_complete", "status": status}
    translator, _ = fed(item("item.completed", id="item_1", **done))
    assert translator.completing is completing


def test_a_tool_that_fails_says_why():
    call = {"id": "i", "type": "mcp_tool_call", "server": "docs", "tool": "find"}
    _, events = fed(
        item("item.completed", **call, status="failed", result=None, error={"message": "no such"})
    )
    assert events[-1].error == "no such"


def test_warnings_and_retries_are_no_failures():
    translator, events = fed(
        item("item.completed", id="item_0", type="error", message="Model metadata not found."),
        {"type": "error", "message": "Reconnecting... 1/5"},
        {"type": "error", "message": "bad request"},
    )
    assert [type(event) for event in events] == [Notice, Notice]
    assert translator.error is None


def test_usage_is_that_of_the_turn():
    _, events = fed({"type": "turn.completed", "usage": USAGE})
    (report,) = events
    assert isinstance(report, UsageReported)
    assert report.usage == TokenUsage(
        input_tokens=100,
        output_tokens=20,
        cached_input_tokens=10,
        cache_write_tokens=0,
        reasoning_tokens=5,
        total_tokens=120,
    )


@pytest.mark.parametrize("usage", [None, {}, {"input_tokens": -1}, {"output_tokens": 1e30}])
def test_a_count_that_makes_no_sense_is_unknown(usage):
    translator, events = fed({"type": "turn.completed", "usage": usage})
    assert events == []
    assert translator.completed


@pytest.mark.parametrize(
    ("message", "kind", "retryable"),
    [
        ("exceeded retry limit, last status: 429 Too Many Requests", ErrorKind.RATE_LIMIT, True),
        ("unexpected status 401 Unauthorized: bad key", ErrorKind.AUTH_FAILURE, False),
        ("unexpected status 503 Unavailable", ErrorKind.MODEL_ERROR, True),
        ("We\u2019re currently experiencing high demand, which", ErrorKind.MODEL_ERROR, True),
        ("Codex ran out of room in the model's context", ErrorKind.CONTEXT_OVERFLOW, False),
        ("Quota exceeded. Check your plan", ErrorKind.RATE_LIMIT, False),
        ("Selected model is at capacity.", ErrorKind.MODEL_ERROR, True),
        ("stream disconnected before completion", ErrorKind.MODEL_ERROR, True),
        ("Missing environment variable: `X`.", ErrorKind.AUTH_FAILURE, False),
        ("something else", ErrorKind.UNKNOWN, False),
    ],
)
def test_a_failed_turn_has_its_kind_by_its_message(message, kind, retryable):
    translator, _ = fed({"type": "turn.failed", "error": {"message": message}})
    assert (translator.error.kind, translator.error.retryable) == (kind, retryable)


def test_what_is_left_open_has_no_end_that_was_told():
    translator, _ = fed(
        item("item.completed", id="item_0", type="reasoning", text="Hm."),
        item("item.started", **{**COMMAND, "status": "in_progress"}),
    )
    (message,) = translator.finish()
    assert message.thinking == "Hm."
    assert translator.finish() == []


@given(st.binary())
def test_any_bytes_are_a_line_or_an_error_that_says_so(raw):
    try:
        line = read_object(raw)
    except ValueError:
        return
    ExecTranslator().feed(line)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=5,
    )
)
def test_unknown_lines_are_ignored(value):
    assert ExecTranslator().feed({"type": "unheard.of", "item": value}) == []
    assert json.dumps(value)


def test_no_value_of_a_line_breaks_its_reader():
    served = {
        "id": "i2",
        "type": "mcp_tool_call",
        "server": "s",
        "tool": "t",
        "arguments": {"a": 1},
    }
    served |= {"result": {"content": [{"type": "text", "text": "x"}]}, "error": {"message": "no"}}
    change = {"id": "i3", "type": "file_change", "changes": [{"path": "a", "kind": "add"}]}
    for of in (COMMAND, served, change, {"id": "i4", "type": "agent_message", "text": "x"}):
        for kind in ("item.started", "item.completed"):
            translator, message = ExecTranslator(), item(kind, **of)
            for odd in with_odd_values(message):
                if isinstance(odd, dict):  # another one is no line
                    translator.feed(odd)
            translator.feed(message)
            translator.finish()
    for last in (
        {"type": "turn.completed", "usage": USAGE},
        {"type": "turn.failed", "error": {"message": "no", "codexErrorInfo": {"a": {}}}},
        {"type": "error", "message": "no"},
    ):
        for odd in with_odd_values(last):
            if isinstance(odd, dict):
                ExecTranslator().feed(odd)
