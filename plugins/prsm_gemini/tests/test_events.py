"""Lines of stream-json as events."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prsm_gemini.events import Translator
from prsm_testing import with_odd_values
from prsm_testing.doubles import only

from prsm_core.domain.turns import (
    AssistantMessage,
    Notice,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
    UsageReported,
)
from prsm_core.domain.usage import TokenUsage


def play(*events):
    translator = Translator(lambda name: name.startswith("mcp_prsm_"))
    found = [e for event in events for e in translator.feed(json.dumps(event).encode())]
    return translator, [*found, *translator.finish()]


def text(content):
    return {"type": "message", "role": "assistant", "content": content, "delta": True}


def use(name="run_shell_command", call="c", **parameters):
    return {"type": "tool_use", "tool_name": name, "tool_id": call, "parameters": parameters}


def result(call="c", status="success", **fields):
    return {"type": "tool_result", "tool_id": call, "status": status, **fields}


DONE = {"type": "result", "status": "success", "stats": {}}


def test_deltas_are_one_message_until_something_else_comes():
    _, events = play(text("one "), text("two"), use(command="ls"), result(output=""), text("x"))
    assert [delta.text for delta in only(TextDelta, events)] == ["one ", "two", "x"]
    assert only(AssistantMessage, events) == [AssistantMessage("one two"), AssistantMessage("x")]


def test_a_vendors_call_has_its_canonical_name_and_outcome():
    translator, events = play(use(command="ls"), result(output="a.txt"), DONE)
    assert only(ToolCallStarted, events) == [ToolCallStarted("c", "Bash", {"command": "ls"})]
    ended = ToolCallFinished("c", "completed", result="a.txt", is_whole=False)
    assert only(ToolCallFinished, events) == [ended]
    assert translator.ran == {"run_shell_command": 1}


@pytest.mark.requirement("E16")
def test_the_exit_code_of_a_command_is_known_where_it_wrote_nothing():
    for output, ended in {
        "": ToolCallFinished("c", "completed", result="", exit_code=0),
        "Command exited with code: 3": ToolCallFinished(
            "c", "failed", result="", error="exit code 3", exit_code=3
        ),
        "Command exited with code: 3\nx": ToolCallFinished(
            "c", "completed", result="Command exited with code: 3\nx", is_whole=False
        ),
    }.items():
        translator, events = play(use(command="ls"), result(output=output), DONE)
        assert only(ToolCallFinished, events) == [ended]
        assert translator.ran == {"run_shell_command": 1}


@pytest.mark.parametrize(
    ("kind", "status"), [("policy_violation", "denied"), ("unhandled_exception", "failed")]
)
def test_a_call_that_was_refused_differs_from_one_that_failed(kind, status):
    error = {"type": kind, "message": "no"}
    translator, events = play(use(), result(status="error", output="no", error=error))
    assert only(ToolCallFinished, events) == [ToolCallFinished("c", status, error="no")]
    assert not translator.ran


def test_orchestration_calls_are_the_engines():
    _, events = play(use("mcp_prsm_note"), result(output="noted"), DONE)
    assert events == []


def test_a_call_that_never_ends_has_no_end_that_was_told():
    _, events = play(use())
    assert len(only(ToolCallStarted, events)) == 1
    assert only(ToolCallFinished, events) == []


def test_success_is_a_result_of_success_and_no_error():
    assert play(DONE)[0].succeeded
    assert not play()[0].succeeded
    error = {"type": "error", "severity": "error", "message": "broken"}
    translator, _ = play(error, DONE)
    assert not translator.succeeded
    assert translator.failure == "broken"
    told = {"type": "result", "status": "error", "error": {"message": "[API Error: x]"}}
    assert play(told)[0].failure == "[API Error: x]"


def test_a_warning_is_told_and_fails_nothing():
    warning = {"type": "error", "severity": "warning", "message": "Loop detected"}
    translator, events = play(warning, DONE)
    assert only(Notice, events) == [Notice("warning", "Loop detected")]
    assert translator.succeeded


def test_tokens_are_those_of_the_process_and_thinking_is_the_rest():
    stats = {"input_tokens": 200, "output_tokens": 20, "cached": 50, "total_tokens": 225}
    _, events = play({**DONE, "stats": stats})
    counts = TokenUsage(
        input_tokens=200,
        output_tokens=25,  # as other vendors tell it
        cached_input_tokens=50,
        reasoning_tokens=5,
        total_tokens=225,
    )
    assert [report.usage for report in only(UsageReported, events)] == [counts]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
KINDS = st.sampled_from(["init", "message", "tool_use", "tool_result", "error", "result", "new"])
FIELDS = st.sampled_from(
    ["content", "error", "message", "output", "parameters", "role", "stats", "status", "tool_id"]
)
EVENTS = st.builds(
    lambda kind, fields: {"type": kind, **fields}, KINDS, st.dictionaries(FIELDS, JSON, max_size=4)
)


@given(st.lists(EVENTS | JSON, max_size=8))
def test_whatever_comes_is_translated_and_what_ends_has_begun_once(told):
    translator, events = play(*told)
    started = [call.call_id for call in only(ToolCallStarted, events)]
    finished = [call.call_id for call in only(ToolCallFinished, events)]
    assert len(set(finished)) == len(finished)
    assert set(finished) <= set(started)
    assert isinstance(translator.succeeded, bool)


def test_no_value_of_a_line_breaks_its_reader():
    translator = Translator(lambda name: name.startswith("mcp_prsm_"))
    failed = result(status="error", error={"type": "policy_violation", "message": "no"})
    error = {"type": "error", "severity": "warning", "message": "hm"}
    for message in (text("one"), use(command="ls"), result(output="a"), use(), failed, error, DONE):
        for odd in with_odd_values(message):
            translator.feed(json.dumps(odd).encode())
            translator.result = None
            assert isinstance(translator.failure, str)
        translator.feed(json.dumps(message).encode())
    translator.finish()


def lacking(*servers, ran=()):
    """Return the warnings of a turn whose Gemini says on stderr that it lacks a server."""
    translator = Translator(lambda name: name.startswith("mcp_prsm_"), servers)
    for name in ran:
        for event in (use(name=name, call=name), result(call=name, output="there")):
            translator.feed(json.dumps(event).encode())
    events = translator.failed_servers("MCP issues detected. Run /mcp list for status.\n")
    return [event.text for event in only(Notice, events)]


@pytest.mark.requirement("U35")
def test_a_server_whose_tool_gemini_does_not_have_is_named_once():
    translator = Translator(lambda name: name.startswith("mcp_prsm_"), ["gone", "good"])
    error = {"type": "tool_not_registered", "message": "no such tool"}
    warnings = []
    for call in ("one", "two"):
        for event in (use(name="mcp_gone_tell", call=call), result(call, "error", error=error)):
            warnings += only(Notice, translator.feed(json.dumps(event).encode()))
    text = "The MCP server gone is not there: Gemini has none of its tools"
    assert warnings == [Notice("warning", text)]
    assert translator.failed_servers("MCP issues detected. Run /mcp list for status.") == []


@pytest.mark.requirement("U35")
def test_a_server_that_gemini_lacks_is_named_from_those_that_have_not_answered():
    one = ["The MCP server gone is not there: Gemini has none of its tools"]
    assert lacking("gone") == one
    assert lacking("gone", "good", ran=["mcp_good_tell"]) == one
    assert lacking("a", "b") == ["One of the MCP servers a, b is not there"]
    assert lacking("good", ran=["mcp_good_tell"]) == lacking() == []
    assert Translator(bool, ["gone"]).failed_servers("Loaded cached credentials.") == []
