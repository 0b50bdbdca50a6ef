"""The OpenAI Responses wire format."""

from __future__ import annotations

import json

from prsm_testing.openai_wire import OpenAIResponses
from prsm_testing.playback import HttpError, Reply, Scenario

WIRE = OpenAIResponses()


def reply(**step):
    (lane,) = Scenario.from_mapping({"lanes": {"a": {"steps": [step]}}}).lanes
    ids = tuple(f"call_{n}" for n, _ in enumerate(lane.steps[0].calls))
    return Reply(step=lane.steps[0], number=3, call_ids=ids)


def events(**step):
    found = []
    for piece in WIRE.stream(reply(**step), {}):
        name, data = piece.decode().strip().split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        found.append(event)
    assert [event["sequence_number"] for event in found] == list(range(len(found)))
    return found


def types(**step):
    return [event["type"].removeprefix("response.") for event in events(**step)]


def test_a_text_is_streamed_between_created_and_completed():
    assert types(say="two words") == [
        "created",
        "output_item.added",
        "output_text.delta",
        "output_text.delta",
        "output_item.done",
        "completed",
    ]


def test_thinking_comes_before_the_text_and_calls_behind_it():
    found = events(think="hm", say="ok", call={"tool": "t", "arguments": {"n": 1}})
    done = [event["item"] for event in found if event["type"] == "response.output_item.done"]
    assert [item["type"] for item in done] == ["reasoning", "message", "function_call"]
    assert json.loads(done[2]["arguments"]) == {"n": 1}
    assert done[2]["call_id"] == "call_0"
    assert found[-1]["response"]["output"] == done


def test_a_shell_and_a_patch_are_calls_of_exec_command():
    step = {"shell": "ls", "patch": "*** Begin Patch\n*** End Patch\n"}
    found = events(**step)
    done = [event["item"] for event in found if event["type"] == "response.output_item.done"]
    commands = [json.loads(item["arguments"])["cmd"] for item in done]
    assert {item["name"] for item in done} == {"exec_command"}
    assert commands == [
        "ls",
        "apply_patch <<'PRSM_PATCH'\n*** Begin Patch\n*** End Patch\nPRSM_PATCH",
    ]


def test_a_namespace_is_sent_only_where_there_is_one():
    item = events(call={"tool": "t", "namespace": "mcp__x"})[1]["item"]
    assert item["namespace"] == "mcp__x"
    assert "namespace" not in events(call={"tool": "t"})[1]["item"]


def test_usage_is_told_at_the_end():
    end = events(say="x", usage={"cached_input_tokens": 5})[-1]
    assert end["response"]["usage"] == {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 5},
        "output_tokens": 10,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 110,
    }


def test_a_stream_can_fail_or_stay_incomplete():
    failed = events(stream_error={"code": "c", "message": "m"})[-1]
    assert failed["type"] == "response.failed"
    assert failed["response"]["error"] == {"code": "c", "message": "m"}
    cut = events(incomplete="content_filter")[-1]
    assert cut["type"] == "response.incomplete"
    assert cut["response"]["incomplete_details"] == {"reason": "content_filter"}


def test_an_http_error_has_the_vendors_shape():
    body = json.loads(WIRE.error(HttpError(status=404, code="model_not_found", message="no")))
    assert body["error"] == {
        "message": "no",
        "type": "invalid_request_error",
        "param": None,
        "code": "model_not_found",
    }


def test_a_request_is_read_into_prompts_system_texts_and_outputs():
    conversation = WIRE.read(
        {
            "instructions": "Be brief.",
            "input": [
                {"role": "developer", "content": [{"type": "input_text", "text": "You are w1."}]},
                {"role": "user", "content": [{"type": "input_text", "text": "go"}]},
                {"type": "function_call", "call_id": "c1", "name": "ls", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c1", "output": "a.txt"},
                {
                    "type": "custom_tool_call_output",
                    "call_id": "c2",
                    "output": [{"type": "input_text", "text": "b"}],
                },
                "odd",
            ],
        }
    )
    assert conversation.user == ("go",)
    assert conversation.system == ("Be brief.", "You are w1.")
    assert conversation.outputs == (("c1", "ls", "a.txt"), ("c2", "", "b"))
    assert "a.txt" in conversation.text


def test_an_input_that_is_a_text_is_a_prompt():
    assert WIRE.read({"input": "hello"}).user == ("hello",)
    assert WIRE.read({}).user == ()
