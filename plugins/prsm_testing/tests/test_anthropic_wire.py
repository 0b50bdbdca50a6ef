"""The Anthropic Messages wire format."""

from __future__ import annotations

import json

import pytest
from prsm_testing.anthropic_wire import AnthropicMessages
from prsm_testing.playback import HttpError, Reply, Scenario

WIRE = AnthropicMessages()
TOOLS = {"tools": [{"name": "Bash"}, {"name": "mcp__prsm__spawn_child"}, {"name": "mcp__a__b"}]}
PATCH = """*** Begin Patch
*** Add File: new.txt
+one
+two
*** Update File: old.txt
@@
 kept
-gone
+come
@@ def f():
-last
+latest
*** Delete File: dead file.txt
*** End Patch
"""


def reply(**step):
    (lane,) = Scenario.from_mapping({"lanes": {"a": {"steps": [step]}}}).lanes
    ids = tuple(f"call_{call.id or 'x'}__{n}" for n, call in enumerate(lane.steps[0].calls))
    return Reply(step=lane.steps[0], number=3, call_ids=ids)


def events(body=TOOLS, **step):
    found = []
    for piece in WIRE.stream(reply(**step), body):
        name, data = piece.decode().strip().split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        found.append(event)
    return found


def whole(body=TOOLS, **step):
    return json.loads(WIRE.whole(reply(**step), body))


def uses(body=TOOLS, **step):
    blocks = whole(body, **step)["content"]
    return [(block["name"], block["input"]) for block in blocks if block["type"] == "tool_use"]


def test_a_text_is_streamed_between_the_start_and_the_stop_of_a_message():
    found = events({"model": "m"}, say="two words")
    assert [event["type"] for event in found] == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert found[0]["message"]["model"] == "m"
    assert found[0]["message"]["content"] == []
    assert [event["delta"]["text"] for event in found[2:4]] == ["two ", "words"]
    assert found[5]["delta"]["stop_reason"] == "end_turn"


def test_thinking_comes_before_the_text_and_calls_behind_it():
    found = events(think="hm", say="ok", call={"tool": "t", "arguments": {"n": 1}})
    begun = [e["content_block"] for e in found if e["type"] == "content_block_start"]
    assert [block["type"] for block in begun] == ["thinking", "text", "tool_use"]
    assert begun[2] == {"type": "tool_use", "id": "call_x__0", "name": "t", "input": {}}
    deltas = [(e["index"], e["delta"]) for e in found if e["type"] == "content_block_delta"]
    assert [(index, delta["type"]) for index, delta in deltas] == [
        (0, "thinking_delta"),
        (0, "signature_delta"),
        (1, "text_delta"),
        (2, "input_json_delta"),
    ]
    assert json.loads(deltas[-1][1]["partial_json"]) == {"n": 1}
    assert found[-2]["delta"]["stop_reason"] == "tool_use"


def test_what_is_streamed_is_what_is_answered_whole():
    step = {"think": "hm", "say": "ok", "call": {"tool": "t", "arguments": {"n": 1}}}
    answer = whole(**step)
    assert [block["type"] for block in answer["content"]] == ["thinking", "text", "tool_use"]
    assert answer["content"][2]["input"] == {"n": 1}
    assert answer["stop_reason"] == "tool_use"
    end = events(**step)[-2]
    assert answer["usage"] == end["usage"]


@pytest.mark.parametrize(
    ("tool", "name"),
    [
        ("spawn_child", "mcp__prsm__spawn_child"),
        ("b", "mcp__a__b"),
        ("mcp__a__b", "mcp__a__b"),
        ("Bash", "Bash"),
        ("unknown", "unknown"),
    ],
)
def test_a_plain_tool_name_becomes_the_one_that_the_request_declares(tool, name):
    assert uses(call={"tool": tool}) == [(name, {})]


def test_a_namespace_stands_before_the_name():
    assert uses(call={"tool": "t", "namespace": "mcp__x"}) == [("mcp__x__t", {})]


def test_a_shell_is_a_call_of_bash():
    step = {"shell": "ls -l"}
    assert uses(**step) == [("Bash", {"command": "ls -l"})]


def test_a_patch_becomes_a_use_for_each_file_and_place():
    assert uses(patch=PATCH) == [
        ("Write", {"file_path": "new.txt", "content": "one\ntwo\n"}),
        (
            "Edit",
            {
                "file_path": "old.txt",
                "old_string": "kept\ngone\n",
                "new_string": "kept\ncome\n",
            },
        ),
        ("Edit", {"file_path": "old.txt", "old_string": "last\n", "new_string": "latest\n"}),
        ("Bash", {"command": "rm -- 'dead file.txt'"}),
    ]
    ids = [block["id"] for block in whole(patch={"patch": PATCH, "id": "p"})["content"]]
    assert ids == ["call_p__0", "call_p-1__0", "call_p-2__0", "call_p-3__0"]


def test_input_tokens_are_those_that_no_cache_held():
    usage = {"input_tokens": 50, "cached_input_tokens": 20, "output_tokens": 7}
    start, *_, end, _ = events(say="x", usage=usage)
    assert end["usage"] == {
        "input_tokens": 30,
        "output_tokens": 7,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 20,
    }
    assert start["message"]["usage"] == {**end["usage"], "output_tokens": 1}


@pytest.mark.parametrize(
    ("given", "told"),
    [(True, "max_tokens"), ("content_filter", "refusal"), ("pause_turn", "pause_turn")],
)
def test_a_message_can_stay_incomplete(given, told):
    assert events(say="x", incomplete=given)[-2]["delta"]["stop_reason"] == told
    assert whole(say="x", incomplete=given)["stop_reason"] == told


@pytest.mark.parametrize(
    ("code", "kind"),
    [("overloaded_error", "overloaded_error"), ("server_error", "api_error")],
)
def test_a_stream_can_fail_in_the_middle(code, kind):
    failure = {"code": code, "message": "m"}
    found = events(say="x", stream_error=failure)
    assert found[-1]["error"] == {"type": kind, "message": "m"}
    assert "message_stop" not in [event["type"] for event in found]
    assert whole(say="x", stream_error=failure)["error"] == {"type": kind, "message": "m"}


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (404, "not_found_error"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (503, "api_error"),
        (529, "overloaded_error"),
    ],
)
def test_an_http_error_has_the_vendors_shape(status, kind):
    body = json.loads(WIRE.error(HttpError(status=status, message="no")))
    assert body["type"] == "error"
    assert body["error"] == {"type": kind, "message": "no"}


def test_an_overflow_is_told_in_the_vendors_words():
    error = HttpError(status=400, code="context_length_exceeded", message="9 tokens > 8 maximum")
    told = json.loads(WIRE.error(error))["error"]
    assert told == {
        "type": "invalid_request_error",
        "message": "prompt is too long: 9 tokens > 8 maximum",
    }


def test_a_request_is_read_into_prompts_system_texts_and_outputs():
    conversation = WIRE.read(
        {
            "system": [{"type": "text", "text": "You are Claude."}, {"type": "text", "text": "w1"}],
            "messages": [
                {"role": "user", "content": "go"},
                {"role": "system", "content": "a note"},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "text", "text": "well"},
                        {"type": "tool_use", "id": "c1", "name": "mcp__prsm__ask_parent"},
                        {"type": "tool_use", "id": "c2", "name": "Bash", "input": {}},
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "tool_result",
                            "tool_use_id": "c1",
                            "content": [{"type": "text", "text": "yes"}],
                        },
                        {"type": "tool_result", "tool_use_id": "c2", "content": "a.txt"},
                        {"type": "text", "text": "and this"},
                    ],
                },
                "odd",
            ],
        }
    )
    assert conversation.user == ("go", "and this")
    assert conversation.system == ("You are Claude.\nw1", "a note")
    assert conversation.outputs == (("c1", "ask_parent", "yes"), ("c2", "Bash", "a.txt"))
    assert "well" in conversation.text


def test_what_a_user_says_while_the_model_works_is_a_prompt():
    steered = "The user sent a new message while you were working:\nlook left"
    message = {"role": "system", "content": [{"type": "text", "text": steered}]}
    conversation = WIRE.read({"messages": [message]})
    assert (conversation.user, conversation.system) == ((steered,), ("",))


def test_a_system_prompt_may_be_a_text_and_messages_may_be_missing():
    conversation = WIRE.read({"system": "You are w1."})
    assert (conversation.system, conversation.user) == (("You are w1.",), ())


def test_a_count_of_tokens_is_answered_aside():
    answer = WIRE.aside("POST", "/v1/messages/count_tokens", {})
    assert answer is not None
    assert json.loads(answer)["input_tokens"] > 0
    assert WIRE.aside("POST", "/v1/messages", {}) is None
    assert WIRE.serves("/v1/messages")
    assert not WIRE.serves("/v1/messages/count_tokens")


def test_the_client_says_whether_it_wants_a_stream():
    assert WIRE.is_streamed("/v1/messages", {"stream": True})
    assert not WIRE.is_streamed("/v1/messages", {})
