"""The OpenAI Responses wire format of a scripted model: requests in, server-sent events out."""

from __future__ import annotations

import itertools
import json
import time
from typing import TYPE_CHECKING, Any

from prsm_demo.script.reading import DEFAULT_USAGE

from prsm_testing.playback import Conversation, Reply, pieces, strings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prsm_testing.playback import Call, HttpError, Step

_USED_UP = "usage_limit_reached"  # of a plan: its error tells when that ends


class OpenAIResponses:
    """`POST <base>/responses`, as Codex speaks it."""

    def serves(self, path: str) -> bool:
        return path == "/v1/responses"

    def aside(self, method: str, path: str, body: Mapping[str, Any]) -> bytes | None:
        """Answer what no scenario knows: the list of models, which is empty."""
        if method == "GET" and path == "/v1/models":
            return b'{"object": "list", "data": []}'
        return None

    def is_streamed(self, path: str, body: Mapping[str, Any]) -> bool:
        return bool(body.get("stream"))

    def read(self, body: Mapping[str, Any]) -> Conversation:
        items = [item for item in _items(body) if isinstance(item, dict)]
        names = {i.get("call_id"): i.get("name", "") for i in items if "name" in i}
        outputs = [
            (
                str(item.get("call_id")),
                str(names.get(item.get("call_id"), "")),
                _text(item.get("output")),
            )
            for item in items
            if str(item.get("type", "")).endswith("_call_output")
        ]
        return Conversation(
            user=tuple(_texts(items, ("user",))),
            system=(str(body.get("instructions") or ""), *_texts(items, ("developer", "system"))),
            outputs=tuple(outputs),
            text="\n".join(strings(dict(body))),
        )

    def error(self, error: HttpError) -> bytes:
        """Return the JSON body of an HTTP error; a used-up plan is told as the vendor does."""
        kind = "invalid_request_error" if error.status < 500 else "server_error"
        detail: dict[str, Any] = {"message": error.message, "type": kind}
        detail |= {"param": None, "code": error.code}
        if error.code == _USED_UP:
            resets = None if error.retry_after is None else int(time.time() + error.retry_after)
            detail = {"type": _USED_UP, "message": error.message, "resets_at": resets}
        return json.dumps({"error": detail}).encode()

    def whole(self, reply: Reply, body: Mapping[str, Any]) -> bytes:
        return json.dumps(_response(reply, "completed", list(_outputs(reply)))).encode()

    def stream(self, reply: Reply, body: Mapping[str, Any]) -> list[bytes]:
        numbers = itertools.count()
        return [
            f"event: {event['type']}\n"
            f"data: {json.dumps({**event, 'sequence_number': next(numbers)})}\n\n".encode()
            for event in _events(reply)
        ]


def _items(body: Mapping[str, Any]) -> list[Any]:
    given = body.get("input")
    if isinstance(given, str):
        return [{"type": "message", "role": "user", "content": given}]
    return given if isinstance(given, list) else []


def _texts(items: list[dict[str, Any]], roles: tuple[str, ...]) -> Iterator[str]:
    for item in items:
        if item.get("role") in roles:
            yield _text(item.get("content"))


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else json.dumps(content)


def _events(reply: Reply) -> Iterator[dict[str, Any]]:
    step = reply.step
    yield {"type": "response.created", "response": _response(reply, "in_progress", [])}
    for index, item in enumerate(_outputs(reply)):
        yield {"type": "response.output_item.added", "output_index": index, "item": _begun(item)}
        yield from ({**delta, "output_index": index} for delta in _deltas(item))
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield _end(reply, step)


def _end(reply: Reply, step: Step) -> dict[str, Any]:
    if step.stream_error:
        error = {"code": step.stream_error.code, "message": step.stream_error.message}
        response = {**_response(reply, "failed", []), "error": error}
        return {"type": "response.failed", "response": response}
    outputs = list(_outputs(reply))
    if step.incomplete:
        response = _response(reply, "incomplete", outputs)
        details = {"incomplete_details": {"reason": step.incomplete}}
        return {"type": "response.incomplete", "response": {**response, **details}}
    return {"type": "response.completed", "response": _response(reply, "completed", outputs)}


def _response(reply: Reply, status: str, output: list[dict[str, Any]]) -> dict[str, Any]:
    response: dict[str, Any] = {
        "id": f"resp_{reply.number}",
        "object": "response",
        "status": status,
        "output": output,
    }
    if status != "in_progress":
        response["usage"] = _usage(reply.step.usage or DEFAULT_USAGE)
    return response


def _usage(counts: Mapping[str, int]) -> dict[str, Any]:
    return {
        "input_tokens": counts["input_tokens"],
        "input_tokens_details": {"cached_tokens": counts["cached_input_tokens"]},
        "output_tokens": counts["output_tokens"],
        "output_tokens_details": {"reasoning_tokens": counts["reasoning_tokens"]},
        "total_tokens": counts["input_tokens"] + counts["output_tokens"],
    }


def _outputs(reply: Reply) -> Iterator[dict[str, Any]]:
    step, base = reply.step, reply.number
    if step.think:
        summary = [{"type": "summary_text", "text": step.think}]
        yield {"type": "reasoning", "id": f"rs_{base}", "encrypted_content": "", "summary": summary}
    if step.say:
        content = [{"type": "output_text", "text": step.say, "annotations": []}]
        yield {"type": "message", "id": f"msg_{base}", "role": "assistant", "content": content}
    for call, call_id in zip(step.calls, reply.call_ids, strict=True):
        name, arguments = _named(call)
        item = {
            "type": "function_call",
            "id": f"fc_{call_id}",
            "call_id": call_id,
            "name": name,
            "arguments": json.dumps(arguments),
        }
        yield item | ({"namespace": call.namespace} if call.namespace else {})


def _named(call: Call) -> tuple[str, Mapping[str, Any]]:
    if call.kind == "patch":
        patch = str(call.arguments["patch"]).rstrip("\n")
        return "exec_command", {"cmd": f"apply_patch <<'PRSM_PATCH'\n{patch}\nPRSM_PATCH"}
    return ("exec_command" if call.kind == "shell" else call.tool), call.arguments


def _begun(item: dict[str, Any]) -> dict[str, Any]:
    empty: dict[str, dict[str, Any]] = {"message": {"content": []}, "reasoning": {"summary": []}}
    return {**item, **empty.get(item["type"], {"arguments": ""})}


def _deltas(item: dict[str, Any]) -> Iterator[dict[str, Any]]:
    place: dict[str, Any] = {"item_id": item["id"]}
    if item["type"] == "message":
        for piece in pieces(item["content"][0]["text"]):
            yield {
                **place,
                "type": "response.output_text.delta",
                "content_index": 0,
                "delta": piece,
            }
    elif item["type"] == "reasoning":
        place["summary_index"] = 0
        yield {**place, "type": "response.reasoning_summary_part.added"}
        for piece in pieces(item["summary"][0]["text"]):
            yield {**place, "type": "response.reasoning_summary_text.delta", "delta": piece}
    else:
        kind = "response.function_call_arguments.delta"
        yield {**place, "type": kind, "delta": item["arguments"]}
