"""Session updates as events."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prsm_acp.events import Translator
from prsm_acp.manifests import find_manifest
from prsm_testing import with_odd_values

from plugins.prsm_acp.tests.fake_manifest import MANIFEST
from plugins.prsm_acp.tests.test_tools import JSON
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
)

SHELL = {"toolCallId": "c1", "kind": "execute", "rawInput": {"command": "ls"}, "title": "`ls`"}
KINDS = (
    "agent_message_chunk",
    "agent_thought_chunk",
    "user_message_chunk",
    "tool_call",
    "tool_call_update",
    "plan",
    "available_commands_update",
    "current_mode_update",
    "usage_update",
    "config_option_update",
)


@pytest.fixture
def translator():
    return Translator(MANIFEST, lambda name: name in ("note", "run_bash"))


def said(text, **fields):
    return {"sessionUpdate": "agent_message_chunk", "content": text_block(text), **fields}


def thought(text):
    return {"sessionUpdate": "agent_thought_chunk", "content": text_block(text)}


def text_block(text):
    return {"type": "text", "text": text}


def output(text):
    return [{"type": "content", "content": text_block(text)}]


def call(status, **fields):
    return {"sessionUpdate": "tool_call", **SHELL, "status": status, **fields}


def update(status=None, **fields):
    return {"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": status, **fields}


def feed(translator, *updates):
    return [event for one in updates for event in translator.feed(one)]


def test_a_message_is_whole_when_something_else_follows(translator):
    events = feed(translator, thought("hm"), said("one "), said("two"), call("in_progress"))
    assert events == [
        ThinkingDelta("hm"),
        TextDelta("one "),
        TextDelta("two"),
        AssistantMessage("one two", thinking="hm"),
        ToolCallStarted("c1", "Bash", {"command": "ls"}),
    ]


def test_a_thought_behind_a_message_begins_the_next(translator):
    feed(translator, said("one"))
    assert feed(translator, thought("hm")) == [AssistantMessage("one"), ThinkingDelta("hm")]
    assert translator.finish() == [AssistantMessage("", thinking="hm")]


def test_another_message_id_is_another_message(translator):
    feed(translator, said("a", messageId="1"), said("b", messageId="1"))
    assert feed(translator, said("c", messageId="2")) == [AssistantMessage("ab"), TextDelta("c")]


def test_a_call_begins_when_its_arguments_are_known(translator):
    pending = {**call("pending"), "rawInput": {}, "title": "Shell"}
    assert feed(translator, pending) == []
    started = feed(translator, update("in_progress", rawInput={"command": "ls -l"}))
    assert started == [ToolCallStarted("c1", "Bash", {"command": "ls -l"})]
    done = feed(translator, update("completed", content=output("a.py")))
    assert done == [ToolCallFinished("c1", "completed", result="a.py", is_whole=False)]


@pytest.mark.requirement("E16")
@pytest.mark.parametrize(
    ("status", "raw", "is_whole", "exit_code"),
    [
        ("completed", None, False, None),
        ("completed", "text", False, None),
        ("completed", {"output": "text"}, False, None),
        ("completed", {"exit_code": 0}, True, 0),
        ("completed", {"exitCode": 0}, True, 0),
        ("completed", {"metadata": {"exit": 0}}, True, 0),
        ("completed", {"exit_code": None}, False, None),
        ("completed", {"exit_code": True}, False, None),
        ("completed", {"exit_code": 1}, False, 1),
        ("completed", {"exit_code": 0, "exitCode": 2}, False, 2),
        ("failed", {"exit_code": 1}, True, 1),
        ("failed", None, False, None),
    ],
)
def test_the_result_of_a_command_is_whole_where_its_exit_code_is_told(
    translator, status, raw, is_whole, exit_code
):
    feed(translator, {**call("in_progress"), "rawInput": {"command": "ls"}})
    (ended,) = feed(translator, update(status, rawOutput=raw))
    assert (ended.status, ended.is_whole, ended.exit_code) == (status, is_whole, exit_code)


def test_a_call_that_is_told_at_its_end_only_has_a_beginning_too(translator):
    events = feed(translator, update("failed", content=output("x\nno such file"), title="T"))
    assert events == [
        ToolCallStarted("c1", "T", {"title": "T"}),
        ToolCallFinished("c1", "failed", result="x\nno such file", error="no such file"),
    ]


def test_a_call_that_was_refused_ends_at_once_and_later_words_on_it_are_dropped(translator):
    known, events = translator.asked({**SHELL, "status": "pending"})
    assert known["title"] == "`ls`"
    assert events == [ToolCallStarted("c1", "Bash", {"command": "ls"})]
    assert translator.denied(SHELL, "not here") == [
        ToolCallFinished("c1", "denied", error="not here")
    ]
    assert feed(translator, update("failed", content=output("no"))) == []
    assert translator.asked(SHELL) == (SHELL, [])


def test_what_is_told_twice_or_too_late_is_not_news(translator):
    events = feed(
        translator,
        call("in_progress"),
        call("in_progress"),
        update("completed", content=output("a")),
        update("completed", content=output("a")),
        call("in_progress"),
    )
    assert [type(event).__name__ for event in events] == ["ToolCallStarted", "ToolCallFinished"]


@pytest.mark.parametrize(
    "about",
    [
        {"title": "mcp__prsm__note"},
        {"title": "note (prsm MCP Server)"},
        {"title": "note"},
        {"title": "Anything", "_meta": {"claudeCode": {"toolName": "mcp__prsm__note"}}},
    ],
)
def test_a_call_of_prsms_own_tools_is_no_tool_of_the_vendor(translator, about):
    own = {"toolCallId": "c1", "kind": "other", **about}
    _, events = translator.asked(own)
    begun = {"sessionUpdate": "tool_call", **own, "status": "in_progress"}
    assert [*events, *feed(translator, begun, update("completed"))] == []


def test_gemini_titles_run_bash_by_its_command_and_its_id_tells_what_it_is():
    translator = Translator(find_manifest("gemini"), lambda name: name == "run_bash")
    own = {"toolCallId": "mcp_prsm_run_bash__1", "kind": "other", "title": "rm -rf x"}
    foreign = {"toolCallId": "mcp_docs_run__1", "kind": "other", "title": "note (prsm MCP Server)"}
    assert translator.is_ours(translator.asked(own)[0])
    assert not translator.is_ours(translator.asked(foreign)[0])


def test_where_a_title_may_be_the_models_text_only_the_vendors_own_name_counts():
    qwen = replace(MANIFEST, quirks=replace(MANIFEST.quirks, free_titles=True))
    translator = Translator(qwen, lambda name: name == "note")
    about = {"toolCallId": "c1", "kind": "other", "rawInput": {"text": "x"}}
    titled, events = translator.asked({**about, "title": "mcp__prsm__note"})
    assert "title" not in titled
    assert not translator.is_ours(titled)
    assert events == [ToolCallStarted("c1", "other", {"text": "x"})]
    own = {**about, "toolCallId": "c2", "_meta": {"toolName": "mcp__prsm__note"}}
    assert feed(translator, {"sessionUpdate": "tool_call", **own}) == []


def test_what_was_told_of_a_call_is_not_unlearned_when_leave_is_asked_for(translator):
    told = {"toolCallId": "c1", "kind": "read", "rawInput": {"filePath": "/a"}, "title": "read"}
    feed(translator, {"sessionUpdate": "tool_call", "status": "in_progress", **told})
    asked = {"toolCallId": "c1", "kind": "other", "rawInput": {}, "locations": [], "title": "/"}
    known, events = translator.asked(asked)
    assert (known["kind"], known["rawInput"], events) == ("read", {"filePath": "/a"}, [])


def test_what_gemini_says_that_its_model_did_not_is_left_out():
    translator = Translator(find_manifest("gemini"), lambda _: False)
    events = feed(
        translator, said("[MODE_UPDATE] yolo"), thought("****\n"), thought("****\nI see.")
    )
    assert events == [ThinkingDelta("I see.")]
    assert feed(translator, said("It says "), said("[MODE_UPDATE]"))[-1] == (
        TextDelta("[MODE_UPDATE]")
    )


def test_a_failure_that_is_told_as_a_message_is_the_last_one_of_its_turn():
    copilot = replace(MANIFEST, quirks=replace(MANIFEST.quirks, failures=("Error: ",)))
    translator = Translator(copilot, lambda _: False)
    failures = []
    for updates in (
        [said("Error: HTTP 401")],
        [said(" is what you asked about.")],
        [call("completed"), said("Error: "), call("completed", toolCallId="c2")],
        [said("Error: again")],
    ):
        feed(translator, *updates)
        failures.append(translator.failure)
    assert failures == ["Error: HTTP 401", None, None, "Error: again"]
    translator.finish()
    assert translator.failure is None


def test_a_step_ends_when_the_model_speaks_again_with_no_call_open(translator):
    feed(translator, said("a"), call("in_progress"))
    assert feed(translator, said("b")) == [TextDelta("b")]
    feed(translator, update("completed"))
    assert feed(translator, thought("c")) == [StepEnded(), ThinkingDelta("c")]
    assert feed(translator, said("d")) == [TextDelta("d")]


def test_the_end_of_a_turn_forgets_what_is_open(translator):
    feed(translator, call("in_progress"), said("last"))
    assert translator.finish() == [AssistantMessage("last")]
    assert translator.finish() == []
    again = feed(translator, call("in_progress"))
    assert again == [ToolCallStarted("c1", "Bash", {"command": "ls"})]


def test_a_change_of_the_agents_mode_is_told(translator):
    changed = {"sessionUpdate": "current_mode_update", "currentModeId": "ask"}
    translator.mode = "ask"
    assert feed(translator, changed) == []
    (notice,) = feed(translator, {**changed, "currentModeId": "free"})
    assert notice == Notice("warning", "fake is in mode free now")


def test_lists_of_commands_are_not_told(translator):
    others = ({"sessionUpdate": kind} for kind in ("plan", "available_commands_update", "new"))
    assert feed(translator, *others) == []


def test_a_plan_is_told_whole(translator):
    entries = [{"content": "look", "status": "completed", "priority": "high"}, {"content": "do"}]
    told = feed(translator, {"sessionUpdate": "plan", "entries": entries})
    assert told == [PlanUpdated((PlanEntry("look", "completed"), PlanEntry("do", "pending")))]


def test_what_a_call_has_written_since_is_told_while_it_runs(translator):
    begun = call("in_progress", content=output("the model's own words"))
    texts = ("one", "one two", "one two", "else", "one two three")
    told = feed(translator, begun, *(update("in_progress", content=output(t)) for t in texts))
    pieces = [event.text for event in told if isinstance(event, ToolOutput)]
    assert pieces == ["one", " two", " three"]
    ended = feed(translator, update("completed", content=output("one two three four")))
    assert not [event for event in ended if isinstance(event, ToolOutput)]


@given(
    st.lists(
        st.fixed_dictionaries(
            {"sessionUpdate": st.sampled_from(KINDS)},
            optional={
                "toolCallId": st.sampled_from(["a", "b"]) | JSON,
                "status": st.sampled_from(["pending", "in_progress", "completed", "failed"]) | JSON,
                "kind": st.sampled_from(["execute", "edit", "other"]) | JSON,
                "title": st.sampled_from(["note", "mcp__prsm__note", "ls"]) | JSON,
                "content": st.just(text_block("x")) | JSON,
                "rawInput": JSON,
                "_meta": JSON,
                "used": JSON,
                "cost": JSON,
            },
        ),
        max_size=12,
    )
)
def test_whatever_an_agent_says_each_call_is_told_once_and_text_is_kept(updates):
    translator = Translator(
        replace(MANIFEST, quirks=replace(MANIFEST.quirks, named_ids=True)), lambda n: n == "note"
    )
    events = [*feed(translator, *updates), *translator.finish()]
    started = [event.call_id for event in events if isinstance(event, ToolCallStarted)]
    finished = [event.call_id for event in events if isinstance(event, ToolCallFinished)]
    assert len(set(started)) == len(started)
    assert len(set(finished)) == len(finished)
    assert set(finished) <= set(started)
    live = "".join(event.text for event in events if isinstance(event, TextDelta))
    assert live == "".join(event.text for event in events if isinstance(event, AssistantMessage))


def test_no_value_of_an_update_breaks_its_reader(translator):
    diff = {"type": "diff", "path": "a", "oldText": "x", "newText": "y", "_meta": {"kind": "add"}}
    shown = {"type": "content", "content": text_block("out")}
    called = {**SHELL, "sessionUpdate": "tool_call", "content": [diff, shown], "status": "pending"}
    called |= {"locations": [{"path": "a"}], "rawOutput": {"exit_code": 1, "metadata": {"exit": 1}}}
    served = {"server": "s", "tool": "t", "arguments": {"a": 1}}
    for message in (
        said("hi", messageId="m"),
        thought("hm"),
        called,
        {**called, "sessionUpdate": "tool_call_update", "status": "in_progress"},
        {**called, "toolCallId": "c2", "title": "mcp.s.t", "rawInput": served},
        {**called, "sessionUpdate": "tool_call_update", "status": "failed"},
        {"sessionUpdate": "plan", "entries": [{"content": "a", "status": "pending"}]},
        {"sessionUpdate": "current_mode_update", "currentModeId": "x"},
        {"sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": {"amount": 1.0}},
    ):
        for odd in with_odd_values(message):
            if isinstance(odd, dict):  # another one is no message
                translator.feed(odd)
                translator.asked(odd)
                translator.is_ours(odd)
        translator.feed(message)
    translator.finish()
