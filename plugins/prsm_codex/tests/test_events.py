"""Notifications recorded from codex 0.169, and the events they become."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from prsm_codex.events import Translator
from prsm_testing import with_odd_values
from prsm_testing.doubles import only

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
    ToolOutput,
    UsageReported,
)
from prsm_core.domain.usage import Provenance

DATA = Path(__file__).parent / "data"


def recorded(name):
    lines = (DATA / name).read_text(encoding="utf-8").splitlines()
    return [(m["method"], m["params"]) for m in map(json.loads, lines)]


def feed(translator: Translator, method: str, params: Any) -> Any:
    return translator.feed(method, params)


def play(translator: Translator, notifications: Any) -> list[Any]:
    return [event for method, params in notifications for event in feed(translator, method, params)]


def usage(total, **counts):
    return {"tokenUsage": {"total": {"totalTokens": total, **counts}}}


def test_a_recorded_turn_becomes_these_events():
    translator = Translator()
    events = play(translator, recorded("turn.jsonl"))
    visible = [e for e in events if not isinstance(e, (TextDelta, ThinkingDelta, Notice))]
    assert [type(e).__name__ for e in visible] == [
        "UsageReported",
        "StepEnded",
        # The thread tells the model's window, once.
        "UsageReported",
        "AssistantMessage",
        "UsageReported",
        "ToolCallStarted",
        "StepEnded",
        "ToolCallFinished",
        "UsageReported",
        "ToolCallStarted",
        "StepEnded",
        "ToolCallFinished",
        "UsageReported",
        "StepEnded",
        "AssistantMessage",
        "UsageReported",
        "StepEnded",
    ]
    assert "".join(e.text for e in only(ThinkingDelta, events)) == "I ponder deeply over this."
    assert only(AssistantMessage, events) == [
        AssistantMessage("will run why", thinking="I ponder deeply over this."),
        AssistantMessage("hello world this is final"),
    ]
    assert sum(e.usage.total_tokens or 0 for e in only(UsageReported, events)) == 960
    last = only(UsageReported, events)[-1]
    assert last.usage.cached_input_tokens == 50
    assert (last.provenance, last.context_used) == (Provenance.REPORTED, 520)
    assert last.context_window == 258_400


def test_what_a_response_used_is_told_before_its_step_ends_and_once():
    translator = Translator()
    raw = {"usage": {"totalTokens": 110, "inputTokens": 100, "outputTokens": 10}}
    told, ended = feed(translator, "rawResponse/completed", raw)
    assert (told.usage.total_tokens, told.context_used, ended) == (110, 110, StepEnded())
    counts = {"inputTokens": 100, "outputTokens": 10}
    assert feed(translator, "thread/tokenUsage/updated", usage(110, **counts)) == []
    [more] = feed(translator, "thread/tokenUsage/updated", usage(150, **counts))
    assert more.usage.total_tokens == 40
    # A version that does not tell it there is counted by its thread.
    assert feed(translator, "rawResponse/completed", {}) == [StepEnded()]


def test_the_vendors_own_tools_have_canonical_names():
    events = play(Translator(), recorded("turn.jsonl"))
    shell, patch = only(ToolCallStarted, events)
    assert (shell.tool, shell.arguments["command"]) == ("Bash", "echo hi > f.txt && cat f.txt")
    assert (patch.tool, patch.arguments) == (
        "Edit",
        {"paths": ["/work/new.txt"], "diff": "*** Add File: /work/new.txt\n+hello"},
    )
    assert only(ToolCallFinished, events) == [
        ToolCallFinished(shell.call_id, "completed", result="hi\n", exit_code=0),
        ToolCallFinished(patch.call_id, "completed"),
    ]


def test_declined_commands_and_changes_are_denied_with_the_reason():
    translator = Translator()
    translator.reasons["call_shell__1"] = "not today"
    events = play(translator, recorded("declined.jsonl"))
    assert only(ToolCallFinished, events) == [
        ToolCallFinished("call_shell__1", "denied", error="not today"),
        ToolCallFinished("call_patch__2", "denied", error="denied"),
    ]


def raw_call(call_id, name="ask", **arguments):
    item = {"type": "function_call", "call_id": call_id, "name": name}
    return "rawResponseItem/completed", {"item": {**item, "arguments": json.dumps(arguments)}}


def test_a_step_ends_when_the_response_is_complete_and_every_call_of_it_has_begun():
    translator = Translator()
    assert play(translator, [raw_call("a"), raw_call("b")]) == []
    assert translator.begun("a") == []
    assert feed(translator, "rawResponse/completed", {}) == []
    assert translator.begun("b") == [StepEnded()]
    assert translator.begun("b") == []


def test_an_announced_orchestration_call_has_not_begun():
    translator = Translator()
    item = {"type": "dynamicToolCall", "id": "a", "tool": "ask"}
    assert play(translator, [raw_call("a"), ("rawResponse/completed", {})]) == []
    assert feed(translator, "item/started", {"item": item}) == []
    assert translator.begun("a") == [StepEnded()]


def test_a_call_that_only_has_an_output_has_begun():
    translator = Translator()
    play(translator, [raw_call("a", "no_such_tool"), ("rawResponse/completed", {})])
    output = {"type": "function_call_output", "call_id": "a", "output": "unsupported call"}
    assert feed(translator, "rawResponseItem/completed", {"item": output}) == [StepEnded()]


def test_a_command_that_wants_a_terminal_is_known_by_its_call():
    translator = Translator()
    play(translator, [raw_call("a", cmd="bash", tty=True), raw_call("b", cmd="ls", tty=False)])
    assert translator.terminals == {"a"}


def test_usage_is_the_growth_of_the_total_and_a_repeated_one_is_none():
    translator = Translator()
    told = ("thread/tokenUsage/updated", usage(120))
    assert [e.usage.total_tokens for e in feed(translator, *told)] == [120]
    assert feed(translator, *told) == []
    told = ("thread/tokenUsage/updated", usage(360))
    assert [e.usage.total_tokens for e in feed(translator, *told)] == [240]


@pytest.mark.parametrize("total", [-5, 1e30, "many", None, True])
def test_a_count_that_is_no_count_is_unknown(total):
    (event,) = feed(Translator(), "thread/tokenUsage/updated", usage(total, inputTokens=7))
    assert event.usage.total_tokens is None
    assert event.usage.input_tokens == 7


def test_a_call_that_failed_tells_its_exit_code_and_output():
    item = {
        "type": "commandExecution",
        "id": "c",
        "command": "/bin/bash -lc false",
        "status": "failed",
        "exitCode": 1,
        "aggregatedOutput": "oops",
    }
    (_, finished) = feed(Translator(), "item/completed", {"item": item})
    assert finished == ToolCallFinished(
        "c", "failed", result="oops", error="exit code 1", exit_code=1
    )


@pytest.mark.requirement("U13")
@pytest.mark.parametrize("told", [None, True, "0"])
def test_an_exit_code_that_is_not_told_is_not_known(told):
    item = {"type": "commandExecution", "id": "c", "command": "true", "status": "completed"}
    (_, finished) = feed(Translator(), "item/completed", {"item": {**item, "exitCode": told}})
    assert (finished.status, finished.exit_code) == ("completed", None)


@pytest.mark.requirement("E16")
@pytest.mark.parametrize(
    ("code", "status", "result"),
    [(0, "completed", ""), (1, "failed", ""), (None, "failed", None)],
)
def test_a_command_that_has_ended_and_wrote_nothing_has_an_empty_result(code, status, result):
    """Codex tells no output then; of a command that has not ended it does not know it."""
    item = {"type": "commandExecution", "id": "c", "command": "true", "status": status}
    item |= {"exitCode": code, "aggregatedOutput": None}
    (_, finished) = feed(Translator(), "item/completed", {"item": item})
    assert (finished.status, finished.result) == (status, result)


def test_an_mcp_call_has_its_name_and_its_text():
    item = {
        "type": "mcpToolCall",
        "id": "c",
        "server": "docs",
        "tool": "find",
        "arguments": {"q": 1},
        "status": "completed",
        "result": {"content": [{"type": "text", "text": "found"}]},
    }
    started, finished = feed(Translator(), "item/completed", {"item": item})
    assert started == ToolCallStarted("c", "mcp__docs__find", {"q": 1})
    assert finished == ToolCallFinished("c", "completed", result="found")


def test_a_long_result_is_cut_with_a_mark():
    item = {
        "type": "commandExecution",
        "id": "c",
        "command": "x",
        "status": "completed",
        "aggregatedOutput": "y" * 100_000,
    }
    (_, finished) = feed(Translator(), "item/completed", {"item": item})
    assert len(finished.result) < 70_000
    assert "cut by prsm" in finished.result


def test_what_a_turn_leaves_open_has_no_end_that_was_told():
    translator = Translator()
    item = {"type": "commandExecution", "id": "c", "command": "sleep 9", "status": "inProgress"}
    feed(translator, "item/started", {"item": item})
    feed(
        translator, "item/completed", {"item": {"type": "reasoning", "id": "r", "summary": ["hm"]}}
    )
    assert translator.finish() == [AssistantMessage("", thinking="hm")]
    assert translator.open_calls == {}
    assert translator.finish() == []


@pytest.mark.parametrize(
    ("method", "params", "level"),
    [
        ("warning", {"message": "w"}, "warning"),
        ("configWarning", {"summary": "c"}, "info"),
        ("model/rerouted", {"fromModel": "a", "toModel": "b"}, "warning"),
        ("error", {"willRetry": True, "error": {"message": "busy"}}, "warning"),
        ("item/completed", {"item": {"type": "contextCompaction", "id": "x"}}, "info"),
    ],
)
def test_what_a_person_should_know_is_a_notice(method, params, level):
    (notice,) = feed(Translator(), method, params)
    assert notice.level == level


def test_what_is_deprecated_is_shown_once_and_what_is_configured_in_each_run():
    (old,) = feed(Translator(), "deprecationNotice", {"summary": "d"})
    (wrong,) = feed(Translator(), "configWarning", {"summary": "the rules cannot be read"})
    assert (old.once, wrong.once) == (True, False)


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("error", {"willRetry": False, "error": {"message": "the end tells it"}}),
        ("item/started", {}),
        ("item/started", {"item": {"type": "userMessage", "id": "u"}}),
        ("something/new", {"a": 1}),
        ("item/completed", {"item": {"type": "somethingNew", "id": "n"}}),
    ],
)
def test_what_is_nobodys_business_has_no_event(method, params):
    assert feed(Translator(), method, params) == []


def test_what_a_command_writes_is_told_while_it_runs():
    translator = Translator()
    piece = {"itemId": "c", "delta": "one\n"}
    assert feed(translator, "item/commandExecution/outputDelta", piece) == []
    item = {"id": "c", "type": "commandExecution", "command": "make", "cwd": "/"}
    feed(translator, "item/started", {"item": item})
    told = feed(translator, "item/commandExecution/outputDelta", piece)
    assert told == [ToolOutput("c", "one\n")]
    feed(translator, "item/completed", {"item": {**item, "aggregatedOutput": "one\n"}})
    assert feed(translator, "item/commandExecution/outputDelta", piece) == []


def test_a_plan_is_told_whole():
    steps = [{"step": "look", "status": "completed"}, {"step": "do", "status": "inProgress"}, {}]
    told = feed(Translator(), "turn/plan/updated", {"plan": steps})
    entries = (PlanEntry("look", "completed"), PlanEntry("do", "in_progress"), PlanEntry(""))
    assert told == [PlanUpdated(entries)]
    assert feed(Translator(), "turn/plan/updated", {"plan": 3}) == []


@pytest.mark.parametrize("name", ["turn.jsonl", "declined.jsonl"])
def test_no_value_of_a_notification_breaks_its_reader(name):
    translator = Translator()
    for method, params in recorded(name):
        for odd in with_odd_values(params):
            if isinstance(odd, dict):  # another one is no message
                translator.feed(method, odd)
        translator.feed(method, params)
    translator.finish()
