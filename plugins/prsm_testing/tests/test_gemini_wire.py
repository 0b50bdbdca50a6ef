"""The Gemini generateContent wire format."""

from __future__ import annotations

import json

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prsm_testing.gemini_wire import GeminiGenerateContent, smallest
from prsm_testing.playback import HttpError, Reply, Scenario

WIRE = GeminiGenerateContent()
STREAM = "/v1beta/models/gemini-2.5-pro:streamGenerateContent"
WHOLE = "/v1beta/models/gemini-2.5-pro:generateContent"


def reply(**step):
    (lane,) = Scenario.from_mapping({"lanes": {"a": {"steps": [step]}}}).lanes
    ids = tuple(f"call_{n}" for n, _ in enumerate(lane.steps[0].calls))
    return Reply(step=lane.steps[0], number=3, call_ids=ids)


def declaring(*names):
    return {"tools": [{"functionDeclarations": [{"name": name} for name in names]}]}


def chunks(body=None, **step):
    found = []
    for piece in WIRE.stream(reply(**step), body or {}):
        assert piece.startswith(b"data: ")
        assert piece.endswith(b"\n\n")
        found.append(json.loads(piece.removeprefix(b"data: ")))
    return found


def parts(found):
    return [part for chunk in found for part in chunk["candidates"][0]["content"]["parts"]]


def aside(*request):
    answer = WIRE.aside(*request)
    assert answer is not None
    return answer


def asked(schema, *, key="responseJsonSchema"):
    answer = aside("POST", WHOLE, {"generationConfig": {key: schema}})
    return json.loads(json.loads(answer)["candidates"][0]["content"]["parts"][0]["text"])


def test_a_text_is_streamed_and_its_last_chunk_tells_the_end():
    found = chunks(say="two words")
    assert [part["text"] for part in parts(found)] == ["two ", "words"]
    assert "finishReason" not in found[0]["candidates"][0]
    assert found[-1]["candidates"][0]["finishReason"] == "STOP"


def test_thinking_comes_before_the_text_and_calls_behind_it():
    call = {"tool": "t", "arguments": {"n": 1}}
    thought, text, first, second = parts(chunks(think="hm", say="ok", call=[call, call]))
    assert thought == {"text": "hm", "thought": True}
    assert text == {"text": "ok"}
    assert first["functionCall"] == {"id": "call_0", "name": "t", "args": {"n": 1}}
    assert "thoughtSignature" in first
    assert "thoughtSignature" not in second


def test_an_orchestration_tool_is_called_by_the_name_the_request_declares():
    body = declaring("read_file", "mcp_prsm_spawn_child")
    (part,) = parts(chunks(body, call={"tool": "spawn_child"}))
    assert part["functionCall"]["name"] == "mcp_prsm_spawn_child"
    (part,) = parts(chunks(declaring("spawn_child"), call={"tool": "spawn_child"}))
    assert part["functionCall"]["name"] == "spawn_child"


def test_a_shell_and_a_patch_that_adds_a_file_are_calls_of_gemini_tools():
    patch = "*** Begin Patch\n*** Add File: a/b.txt\n+one\n+two\n*** End Patch\n"
    step = {"shell": "ls", "patch": patch}
    shell, write = parts(chunks(**step))
    assert shell["functionCall"]["name"] == "run_shell_command"
    assert shell["functionCall"]["args"] == {"command": "ls"}
    assert write["functionCall"]["name"] == "write_file"
    assert write["functionCall"]["args"] == {"file_path": "a/b.txt", "content": "one\ntwo\n"}


def test_any_other_patch_is_refused():
    with pytest.raises(ValueError, match="adds one file"):
        chunks(patch="*** Begin Patch\n*** Delete File: x\n*** End Patch\n")


def test_usage_is_told_at_the_end():
    counts = {"cached_input_tokens": 5, "output_tokens": 10, "reasoning_tokens": 4}
    assert chunks(say="x", usage=counts)[-1]["usageMetadata"] == {
        "promptTokenCount": 100,
        "cachedContentTokenCount": 5,
        "candidatesTokenCount": 6,
        "thoughtsTokenCount": 4,
        "totalTokenCount": 110,
    }


def test_an_answer_without_a_stream_holds_all_parts():
    whole = json.loads(WIRE.whole(reply(think="hm", say="two words"), {}))
    assert [part["text"] for part in parts([whole])] == ["hm", "two words"]
    assert whole["candidates"][0]["finishReason"] == "STOP"


def test_a_stream_can_fail_or_stay_incomplete():
    *_, before, failed = chunks(say="x", stream_error={"code": "INTERNAL", "message": "m"})
    assert "finishReason" not in before["candidates"][0]
    assert failed["error"] == {"code": 500, "message": "m", "status": "INTERNAL", "details": []}
    cut = chunks(say="x", incomplete=True)[-1]
    assert cut["candidates"][0]["finishReason"] == "MAX_TOKENS"


def test_an_empty_step_still_ends():
    (chunk,) = chunks(say="")
    assert chunk["candidates"][0]["finishReason"] == "STOP"


def test_an_http_error_has_the_vendors_shape():
    body = json.loads(WIRE.error(HttpError(status=404, message="no")))
    assert body["error"] == {"code": 404, "message": "no", "status": "NOT_FOUND", "details": []}


def test_a_delay_in_the_message_is_told_as_retry_info_too():
    body = json.loads(WIRE.error(HttpError(status=429, message="Please retry in 1.5s.")))
    (info,) = body["error"]["details"]
    assert body["error"]["status"] == "RESOURCE_EXHAUSTED"
    assert info["retryDelay"] == "1.5s"
    assert info["@type"].endswith("google.rpc.RetryInfo")


def test_a_request_is_read_into_prompts_system_texts_and_outputs():
    wrapped = "<untrusted_context>\nnoted\n</untrusted_context>"
    conversation = WIRE.read(
        {
            "systemInstruction": {"role": "user", "parts": [{"text": "You are w1."}]},
            "contents": [
                {"role": "user", "parts": [{"text": "context"}, {"text": "go"}]},
                {"role": "model", "parts": [{"text": "yes"}, {"functionCall": {"name": "n"}}]},
                {
                    "role": "user",
                    "parts": [
                        {
                            "functionResponse": {
                                "id": "c1",
                                "name": "mcp_prsm_note",
                                "response": {"output": wrapped},
                            }
                        },
                        {"functionResponse": {"name": "ls", "response": {"error": "no"}}},
                        {"functionResponse": {"name": "odd", "response": {"n": 1}}},
                        "odd",
                    ],
                },
                "odd",
            ],
        }
    )
    assert conversation.user == ("context", "go")
    assert conversation.system == ("You are w1.",)
    assert conversation.outputs == (
        ("c1", "note", "noted"),
        ("", "ls", "no"),
        ("", "odd", '{"n": 1}'),
    )
    assert "yes" in conversation.text


def test_what_no_scenario_knows_is_answered_aside():
    models = json.loads(aside("GET", "/v1beta/models", {}))["models"]
    assert models[0]["name"] == "models/gemini-2.5-pro"
    count = aside("POST", "/v1beta/models/m:countTokens", {})
    assert json.loads(count) == {"totalTokens": 100}
    assert WIRE.aside("POST", STREAM, {"contents": []}) is None
    assert WIRE.aside("POST", "/v1/responses", {}) is None
    assert WIRE.aside("GET", "/v1/models", {}) is None


def test_a_question_with_a_schema_gets_its_smallest_answer():
    schema = {
        "type": "OBJECT",
        "properties": {
            "reasoning": {"type": "STRING"},
            "next_speaker": {"type": "STRING", "enum": ["user", "model"]},
            "extra": {"type": "NUMBER"},
        },
        "required": ["reasoning", "next_speaker"],
    }
    assert asked(schema, key="responseSchema") == {"reasoning": "", "next_speaker": "user"}


def test_a_streamed_question_with_a_schema_gets_an_event():
    body = {"generationConfig": {"responseJsonSchema": {"type": "object"}}}
    assert aside("POST", STREAM, body).startswith(b"data: ")


SCALARS = st.sampled_from(
    [
        {"type": "string"},
        {"type": "integer", "minimum": 3},
        {"type": "number"},
        {"type": "boolean"},
        {"type": ["null", "string"]},
        {"enum": ["b", 2]},
        {"const": "c"},
    ]
)
SCHEMAS = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.builds(lambda i, n: {"type": "array", "items": i, "minItems": n}, inner, st.just(2)),
        st.builds(lambda a, b: {"anyOf": [a, b]}, inner, inner),
        st.dictionaries(st.sampled_from("abc"), inner).map(
            lambda p: {"type": "object", "properties": p, "required": sorted(p)[:1]}
        ),
    ),
    max_leaves=8,
)


@given(SCHEMAS)
def test_the_smallest_instance_fits_its_schema(schema):
    jsonschema.validate(smallest(schema), schema)


@pytest.mark.parametrize(
    ("path", "served"),
    [
        (STREAM, True),
        (WHOLE, True),
        ("/v1beta/models/m:countTokens", False),
        ("/v1/responses", False),
        ("/v1/messages", False),
    ],
)
def test_it_serves_its_own_paths_only(path, served):
    assert WIRE.serves(path) is served


def test_the_path_says_whether_the_answer_is_streamed():
    assert WIRE.is_streamed(STREAM, {})
    assert not WIRE.is_streamed(WHOLE, {})
