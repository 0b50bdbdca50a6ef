"""What a rollout file tells of a thread, also one that was torn; and what a turn goes on with."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace
from prsm_codex import rollout, session

from prsm_core.domain.tools import ToolOutcome
from prsm_core.interfaces.provider import Carried, CarriedCall


def item(kind, **fields):
    return {"type": "response_item", "payload": {"type": kind, **fields}}


def event(kind, **fields):
    return {"type": "event_msg", "payload": {"type": kind, **fields}}


def prompt(text, client_id):
    content = [{"type": "text", "text": text}]
    return event(
        "item_completed", item={"type": "UserMessage", "client_id": client_id, "content": content}
    )


def made(call_id, tool="ask", kind="function_call"):
    return item(kind, call_id=call_id, name=tool)


def answer(call_id, output, kind="function_call_output"):
    return item(kind, call_id=call_id, output=output)


def said(text):
    return item("message", role="assistant", content=[{"type": "output_text", "text": text}])


USED = {"type": "token_usage_record", "payload": {}}


def read(*records):
    found = rollout.Rollout()
    for record in records:
        found.add(json.dumps(record).encode())
    return found


def carried(*calls, **prompts):
    made = [
        CarriedCall(call_id=call_id, tool="ask", arguments={}, orchestration=True, outcome=outcome)
        for call_id, outcome in calls
    ]
    return Carried(turn_id="t", prompts=prompts, calls=tuple(made))


YES = ToolOutcome(text="yes")


def is_ours(name):
    return name == "ask"


def test_a_call_is_pending_until_its_output_stands_there():
    """That the client gave an answer is not enough: the model is not told what was not written."""
    told = event("item_completed", item={"type": "DynamicToolCall", "id": "a", "success": True})
    found = read(made("a"), made("b"), told, answer("b", "no"))
    assert list(found.pending) == ["a"]
    assert found.answered == {"b"}


@pytest.mark.parametrize(
    "output",
    [
        "aborted",
        "dynamic tool call was cancelled before receiving a response",
        "aborted by user after 0.1s",
    ],
)
def test_what_codex_writes_for_a_call_that_got_no_answer_is_none(output):
    found = read(made("a"), answer("a", output))
    assert (found.pending, found.answered) == ({}, set())


def test_calls_of_turns_that_ended_are_left_as_they_are():
    found = read(made("a"), event("turn_aborted"), made("b"), event("task_complete"), made("c"))
    assert list(found.pending) == ["c"]
    assert not read(made("a"), {"type": "compacted", "payload": {}}).pending


def test_each_pending_call_gets_one_output_of_its_kind():
    held = read(
        made("answered"),
        made("unseen"),
        made("ran", "exec_command"),
        made("patched", "apply_patch", "custom_tool_call"),
    )
    given = session.outputs(carried(("answered", YES)), held, is_ours, {})
    assert [one["call_id"] for one in given] == ["answered", "unseen", "ran", "patched"]
    assert given[0]["output"] == "yes"
    assert "no effect" in given[1]["output"]
    assert "Make it again" in given[1]["output"]
    assert "may have run" in given[2]["output"]
    assert given[3]["type"] == "custom_tool_call_output"
    assert {one["type"] for one in given[:3]} == {"function_call_output"}


def test_the_images_of_an_answer_stand_in_its_output():
    held, url = read(made("a"), made("b")), "data:image/png;base64,QQ=="
    shown, plain = session.outputs(carried(("a", YES), ("b", YES)), held, is_ours, {"a": [url]})
    assert shown["output"] == [
        {"type": "input_text", "text": "yes"},
        {"type": "input_image", "image_url": url},
    ]
    assert plain["output"] == "yes"


def test_what_the_thread_holds_is_taken_and_nothing_else():
    held = read(prompt("one", "p1"), made("a"), answer("a", "yes"), made("b"), made("c"))
    wanted = carried(("a", YES), ("b", YES), ("lost", YES), p1="other words", p2="one", p3="two")
    given = session.outputs(wanted, held, is_ours, {})
    assert session.taken(wanted, held, given) == {"a", "b", "p1", "p2"}
    assert session.taken(wanted, held, []) == {"a", "p1", "p2"}


def test_a_text_of_an_earlier_turn_is_not_taken_for_one_that_was_steered():
    held = read(prompt("go on", "p1"), event("task_complete"), prompt("else", "p2"))
    assert session.taken(carried(s="go on", p1="x"), held, []) == {"p1"}


def test_a_text_that_was_heard_is_known_by_its_words_in_whatever_turn_of_codex():
    held = read(prompt("look left", "p1"), event("task_complete"), prompt("else", "p2"))
    wanted = replace(carried(s="look left", x="look right"), heard=frozenset("sx"))
    assert session.taken(wanted, held, []) == {"s"}


def test_of_codex_own_calls_what_was_heard_is_lost_where_a_call_waits_for_it():
    """Such a call gets its end in its place; a search has no output there, and lacks none."""
    held = read(made("ran", "exec_command"))
    calls = tuple(
        replace(call, orchestration=False, heard=True)
        for call in carried(("ran", ToolOutcome(text="made it")), ("searched", YES)).calls
    )
    wanted = Carried(turn_id="t", calls=calls)
    assert session.taken(wanted, held, []) == {"searched"}
    (given,) = session.outputs(wanted, held, is_ours, {})
    assert given["output"] == "made it"
    assert session.taken(wanted, held, [given]) == {"ran", "searched"}


def test_a_last_word_after_prompts_that_were_heard_was_heard_too():
    held, wanted = read(said("All done."), USED), carried(p="go on")
    assert session.last_word(wanted, held) == "All done."
    assert session.last_word(replace(wanted, heard=frozenset("p")), held) == ""


@pytest.mark.parametrize(
    ("records", "word"),
    [
        ((said("done"), USED), "done"),
        ((said("done"), event("task_complete", last_agent_message="done")), "done"),
        ((said("done"),), None),
        ((said("first"), made("a"), USED), None),
        ((said("first"), USED, made("a"), answer("a", "yes")), None),
        ((said("done"), USED, event("task_started")), None),
        ((event("task_complete", last_agent_message=None),), None),
        ((event("turn_aborted", last_agent_message="done"),), None),
    ],
)
def test_the_last_word_is_known_once_the_response_is_whole(records, word):
    held = read(*records)
    assert session.last_word(carried(p="unheard"), held) == word
    assert session.last_word(carried(), held) == (None if word is None else "")


NOT_LINES = [b"", b"[1]", b"null", b"{", b"\xff\xfe", b"[" * 100_000, b'{"type": "response_item"}']
ODD = [
    item("message", role="assistant", content=5),
    event("item_completed", item=5),
    {"type": "event_msg", "payload": []},
    event(["task_complete"]),
    item({"a": 1}, role=["assistant"]),
    {"type": ["event_msg"], "payload": {}},
]


@pytest.mark.parametrize("line", [*NOT_LINES, *(json.dumps(odd).encode() for odd in ODD)])
def test_a_line_that_is_none_tells_nothing(line):
    found = read(made("a"))
    found.add(line)
    assert list(found.pending) == ["a"]
    assert found.said is None


def test_a_file_is_read_past_its_torn_lines(tmp_path):
    file = tmp_path / "rollout.jsonl"
    whole = [json.dumps(made(name)).encode() for name in "ab"]
    file.write_bytes(whole[0] + b"\n" + whole[1][:20] + b"\n" + whole[1] + b"\n" + whole[0][:9])
    assert list(rollout.read(file).pending) == ["a", "b"]


def test_the_file_of_a_thread_is_found_by_its_id(tmp_path):
    folder = tmp_path / "sessions" / "2026" / "11"
    folder.mkdir(parents=True)
    file = folder / "rollout-2026-11-23T20-00-00-01a2-b3.jsonl"
    file.touch()
    assert rollout.find(tmp_path, "01a2-b3") == file
    assert rollout.find(tmp_path, "01a2-b4") is None
    assert rollout.find(tmp_path, "*") is None
    assert rollout.find(tmp_path / "none", "01a2-b3") is None
