"""Messages of the CLI as provider events."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prsm_claude.events import Translator, TurnResult, UsageMeter, blocks
from prsm_testing import with_odd_values
from prsm_testing.doubles import only

from plugins.prsm_claude.tests.replay import recorded
from prsm_core.domain.turns import (
    AssistantMessage,
    Notice,
    PlanEntry,
    PlanUpdated,
    StepEnded,
    TextDelta,
    ThinkingDelta,
    ToolCallFinished,
    ToolCallStarted,
    UsageReported,
)
from prsm_core.domain.usage import TokenUsage


def translator() -> Translator:
    return Translator(UsageMeter())


def told(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "uuid": "u", "session_id": "s", "parent_tool_use_id": None, **fields}


def streamed(**event: Any) -> dict[str, Any]:
    return told("stream_event", event=event)


def said(*content: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return told("assistant", message={"content": list(content), "model": "m"}, **fields)


def used(call_id: str, name: str = "Bash", **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def answer(call_id: str, text: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": text, **fields}


def result(call_id: str, text: Any, **fields: Any) -> dict[str, Any]:
    return told("user", message={"content": [answer(call_id, text, **fields)]})


def events(translator: Translator, *messages: dict[str, Any]) -> list[Any]:
    return [event for message in messages for event in translator.feed(message)]


def test_a_recorded_turn_becomes_its_events():
    found, translated = [], translator()
    for message in recorded("turn"):
        if message["type"] == "result":
            found += translated.finish(TurnResult.read(message))
        else:
            found += translated.feed(message)
        if only_tool(message) == "Bash":
            found += translated.begun("call_n__1")
            found += translated.started("call_s__2", "Bash", {"command": "echo hi"})
    assert "".join(event.text for event in only(ThinkingDelta, found)) == "hm, so"
    assert "".join(event.text for event in only(TextDelta, found)) == "let me seedone now"
    assert only(AssistantMessage, found) == [
        AssistantMessage("let me see", thinking="hm, so"),
        AssistantMessage("done now"),
    ]
    assert only(ToolCallStarted, found) == [
        ToolCallStarted("call_s__2", "Bash", {"command": "echo hi"})
    ]
    assert only(ToolCallFinished, found) == [
        ToolCallFinished("call_s__2", "completed", result="hi", exit_code=0)
    ]
    assert len(only(StepEnded, found)) == 2
    first, second, whole = only(UsageReported, found)
    assert (first.usage.total_tokens, second.usage.total_tokens) == (111, 202)
    assert (whole.usage, whole.context_window) == (TokenUsage(), 1_000_000)


def only_tool(message: dict[str, Any]) -> str | None:
    names = [block.get("name") for block in blocks(message)]
    return names[0] if names else None


def test_a_recorded_refusal_is_told_by_its_result_and_not_by_the_model():
    translated = translator()
    *messages, ended = recorded("refused")
    assert [event for message in messages for event in translated.feed(message)] == []
    assert translated.word == "rate_limit"
    result = TurnResult.read(ended)
    assert (result.is_error, result.status) == (True, 429)
    translated.begin()
    assert translated.word is None


def test_recorded_denials_and_failures_have_their_state():
    translated = translator()
    messages = recorded("denied")
    for message in messages[:2]:
        translated.feed(message)
    translated.started("call_s__2", "Bash", {})
    translated.reasons["call_s__2"] = "not in here"
    found: list[Any] = [event for m in messages[2:-1] for event in translated.feed(m)]
    states = {event.call_id: event for event in only(ToolCallFinished, found)}
    assert states["call_s__2"] == ToolCallFinished("call_s__2", "denied", error="not in here")
    assert states["call_e__1"].status == "failed"
    assert only(ToolCallStarted, found)[0].tool == "Edit"  # the CLI refused it by itself


def test_a_step_ends_when_the_response_has_and_its_calls_were_handed_over():
    translated = translator()
    call = said(used("a", "mcp__prsm__note"))
    assert events(translated, call, streamed(type="message_stop")) == []
    assert translated.begun("a") == [StepEnded()]
    assert translated.begun("a") == []
    assert translated.finish() == []


def test_a_call_that_was_handed_over_first_is_not_waited_for():
    translated = translator()
    events(translated, streamed(type="message_start", message={}))
    assert translated.begun("a") == []
    call = said(used("a", "mcp__prsm__note"))
    assert events(translated, call, streamed(type="message_stop")) == [StepEnded()]


def test_a_call_that_the_cli_refuses_is_not_waited_for():
    translated = translator()
    call = said(used("a", "mcp__prsm__note"))
    events(translated, call, streamed(type="message_stop"))
    assert events(translated, result("a", "no", is_error=True)) == [StepEnded()]


def test_a_response_that_was_not_streamed_ends_with_the_turn():
    translated = translator()
    events(translated, said({"type": "text", "text": "x"}))
    assert translated.finish() == [StepEnded()]


def test_thinking_without_a_text_is_kept():
    translated = translator()
    thinking = {"type": "thinking", "thinking": "hm", "signature": "s"}
    found = events(translated, said(thinking), streamed(type="message_stop"))
    assert found == [AssistantMessage("", thinking="hm"), StepEnded()]


def test_what_runs_when_the_turn_ends_has_no_end_that_was_told():
    translated = translator()
    translated.started("a", "Bash", {})
    assert translated.finish() == []
    assert events(translated, result("a", "x")) == []


def test_a_call_begins_and_ends_once():
    translated = translator()
    assert len(translated.started("a", "Bash", {})) == 1
    assert translated.started("a", "Bash", {}) == []
    assert len(events(translated, result("a", "x"), result("a", "x"))) == 1


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("plain", "plain"),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "a\nb"),
        ([{"type": "image"}], "[image]"),
        (None, ""),
    ],
)
def test_a_result_is_a_text(content, text):
    translated = translator()
    translated.started("a", "Read", {})
    assert events(translated, result("a", content)) == [
        ToolCallFinished("a", "completed", result=text)
    ]


OUTPUT = {"stdout": "hi", "stderr": "", "interrupted": False, "isImage": False}
FAILED = {"is_error": True}


@pytest.mark.requirement("U13")
@pytest.mark.parametrize(
    ("block", "beside", "exit_code"),
    [
        (answer("a", "hi"), OUTPUT, 0),
        (answer("a", "hi"), {**OUTPUT, "returnCodeInterpretation": "Files differ"}, None),
        (answer("a", "hi"), {**OUTPUT, "backgroundTaskId": "b1"}, None),
        (answer("a", "hi"), {**OUTPUT, "interrupted": True}, None),
        (answer("a", "hi"), "hi", None),
        (answer("a", "hi"), None, None),
        (answer("a", "Exit code 3\noh", **FAILED), "Error: Exit code 3\noh", 3),
        (answer("a", "Exit code 143", **FAILED), None, 143),
        (answer("a", "Exit code 3 is bad", **FAILED), None, None),
        (answer("a", "InputValidationError", **FAILED), OUTPUT, None),
    ],
)
def test_a_command_has_succeeded_where_the_cli_says_so_and_nothing_else(block, beside, exit_code):
    translated = translator()
    translated.started("a", "Bash", {"command": "diff a b"})
    ended = told("user", message={"content": [block]}, tool_use_result=beside)
    (finished,) = events(translated, ended)
    assert finished.exit_code == exit_code


def test_two_results_in_one_message_have_no_exit_code():
    translated = translator()
    for call_id in "ab":
        translated.started(call_id, "Bash", {"command": "ls"})
    blocks = [answer("a", "hi"), answer("b", "hi")]
    ended = told("user", message={"content": blocks}, tool_use_result=OUTPUT)
    assert [event.exit_code for event in events(translated, ended)] == [None, None]


def test_a_long_result_is_cut():
    translated = translator()
    translated.started("a", "Read", {})
    (finished,) = events(translated, result("a", "x" * 100_000))
    assert len(finished.result) < 70_000


def test_what_a_subagent_says_is_not_what_the_agent_says():
    translated = translator()
    message = said({"type": "text", "text": "x"}, parent_tool_use_id="t")
    assert events(translated, {**message, "parent_tool_use_id": "t"}) == []


@pytest.mark.parametrize(
    ("subtype", "fields", "notice"),
    [
        (
            "api_retry",
            {"error_status": 529, "error": "overloaded"},
            Notice("warning", "Claude tries again: 529 overloaded"),
        ),
        (
            "model_fallback",
            {"trigger": "overloaded"},
            Notice("warning", "Claude fell back to another model: overloaded"),
        ),
        ("compact_boundary", {}, Notice("info", "Claude compacted its conversation.")),
        ("informational", {"content": "a\nb"}, Notice("info", "a b")),
    ],
)
def test_news_are_notices(subtype, fields, notice):
    assert events(translator(), told("system", subtype=subtype, **fields)) == [notice]


def test_a_missing_mcp_server_is_told_once():
    servers = [{"name": "a", "status": "failed"}, {"name": "b", "status": "connected"}]
    start = told("system", subtype="init", mcp_servers=servers)
    (notice,) = events(translator(), start, start)
    assert notice == Notice("warning", "The MCP server a is not there: failed")


def test_a_limit_that_was_hit_tells_when_it_ends():
    translated = translator()
    for status, resets in (("rejected", 1000), ("allowed", None)):
        info = {"status": status, "resetsAt": 1000}
        events(translated, told("rate_limit_event", rate_limit_info=info))
        assert translated.resets_at == resets


IDS = st.sampled_from("abc")
NAMES = st.sampled_from(["Bash", "Edit", "mcp__prsm__note", "AskUserQuestion"])


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("announce"), IDS, NAMES),
            st.tuples(st.just("begun"), IDS, NAMES),
            st.tuples(st.just("started"), IDS, NAMES),
            st.tuples(st.just("result"), IDS, NAMES),
            st.tuples(st.just("stop"), IDS, NAMES),
        )
    )
)
def test_in_any_order_what_ends_has_begun(acts):
    translated, found = translator(), []
    for act, call_id, name in acts:
        if act == "announce":
            found += events(translated, said(used(call_id, name)))
        elif act == "begun":
            found += translated.begun(call_id)
        elif act == "started":
            found += translated.started(call_id, name, {})
        elif act == "result":
            found += events(translated, result(call_id, "x"))
        else:
            found += events(translated, streamed(type="message_stop"))
    found += translated.finish()
    running: set[str] = set()
    for event in found:
        if isinstance(event, ToolCallStarted):
            assert event.call_id not in running
            running.add(event.call_id)
        elif isinstance(event, ToolCallFinished):
            running.remove(event.call_id)


@pytest.mark.parametrize("refused", [False, True])
def test_a_list_of_todos_is_the_plan_once_it_is_taken(refused):
    todos = [{"content": "look", "status": "completed"}, {"content": "do", "status": "odd"}, 3]
    given = translator()
    call = given.started("t1", "TodoWrite", {"todos": todos})
    assert [type(event) for event in call] == [ToolCallStarted]
    told = events(given, result("t1", "ok", is_error=refused))
    entries = (PlanEntry("look", "completed"), PlanEntry("do", "pending"), PlanEntry(""))
    assert only(PlanUpdated, told) == ([] if refused else [PlanUpdated(entries)])


@pytest.mark.parametrize("name", ["turn", "denied", "refused"])
def test_no_value_of_a_message_breaks_its_reader(name):
    reader = translator()
    for message in recorded(name):
        for odd in with_odd_values(message):
            if isinstance(odd, dict):  # another one is no message
                reader.feed(odd)
                TurnResult.read(odd)
        reader.feed(message)
    reader.finish()
