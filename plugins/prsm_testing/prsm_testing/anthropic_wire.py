"""The Anthropic Messages wire format of a scripted model: requests in, server-sent events out."""

from __future__ import annotations

import json
import re
import shlex
from typing import TYPE_CHECKING, Any

from prsm_demo.script.reading import DEFAULT_USAGE

from prsm_testing.playback import Conversation, Reply, pieces, strings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prsm_testing.playback import Call, HttpError

    Block = dict[str, Any]

_MCP = re.compile(r"mcp__.+?__(?P<tool>.+)")
_OVERFLOW = "context_length_exceeded"
_STEERED = "The user sent a new message while you were working:"  # in a message of the system
_COUNTED_TOKENS = 1000  # in every prompt whose tokens are to be counted
_SIGNATURE = "c2NyaXB0ZWQ="
_ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}
_STOPS = {"max_output_tokens": "max_tokens", "content_filter": "refusal"}
_FILE = re.compile(r"^\*\*\* (?P<act>Add|Update|Delete) File: (?P<path>.+)$", re.MULTILINE)


class AnthropicMessages:
    """`POST <root>/v1/messages`, as Claude Code speaks it.

    A plain tool name becomes the one the request declares (`mcp__prsm__spawn_child`), a `shell` a
    call of Bash, a `patch` calls of Write, Edit and, for what it deletes, Bash.
    """

    def serves(self, path: str) -> bool:
        return path == "/v1/messages"

    def aside(self, method: str, path: str, body: Mapping[str, Any]) -> bytes | None:
        """Answer what no scenario knows: is anybody there, and how many tokens a prompt has."""
        if (method, path) == ("HEAD", "/"):
            return b""
        if method == "POST" and path == "/v1/messages/count_tokens":
            return json.dumps({"input_tokens": _COUNTED_TOKENS}).encode()
        return None

    def is_streamed(self, path: str, body: Mapping[str, Any]) -> bool:
        return bool(body.get("stream"))

    def read(self, body: Mapping[str, Any]) -> Conversation:
        messages = [item for item in body.get("messages") or () if isinstance(item, dict)]
        blocks = [block for item in messages for block in _blocks(item.get("content"))]
        names = {b.get("id"): _plain(str(b.get("name"))) for b in blocks if "name" in b}
        outputs = [
            (
                str(block.get("tool_use_id")),
                names.get(block.get("tool_use_id"), ""),
                _text(block.get("content")),
            )
            for block in blocks
            if block.get("type") == "tool_result"
        ]
        notes = [_text(item.get("content")) for item in messages if _is_note(item)]
        return Conversation(
            user=tuple(_user_texts(messages)),
            system=(_text(body.get("system")), *notes),
            outputs=tuple(outputs),
            text="\n".join(strings(dict(body))),
        )

    def error(self, error: HttpError) -> bytes:
        """Return the JSON body of an HTTP error; a context overflow is told as the vendor does."""
        kind = _ERRORS.get(error.status, "api_error")
        message = error.message
        if error.code == _OVERFLOW:
            message = f"prompt is too long: {message}"
        return json.dumps(_error(kind, message)).encode()

    def whole(self, reply: Reply, body: Mapping[str, Any]) -> bytes:
        if reply.step.stream_error:
            return json.dumps(_stream_error(reply)).encode()
        content = list(_content(reply, body))
        message = {
            **_message(reply, body),
            "content": content,
            "stop_reason": _stop_reason(reply, content),
            "usage": _usage(reply),
        }
        return json.dumps(message).encode()

    def stream(self, reply: Reply, body: Mapping[str, Any]) -> list[bytes]:
        return [
            f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
            for event in _events(reply, body)
        ]


def _blocks(content: Any) -> list[Block]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    given = content if isinstance(content, list) else []
    return [block for block in given if isinstance(block, dict)]


def _text(content: Any) -> str:
    return "\n".join(str(block["text"]) for block in _blocks(content) if "text" in block)


def _is_note(item: Block) -> bool:
    """Whether a message tells of the surroundings; what a user says meanwhile comes as one too."""
    steered = _text(item.get("content")).startswith(_STEERED)
    return item.get("role") == "system" and not steered


def _user_texts(messages: list[Block]) -> Iterator[str]:
    for item in messages:
        if item.get("role") in ("user", "system") and not _is_note(item):
            blocks = _blocks(item.get("content"))
            yield from (str(block["text"]) for block in blocks if block.get("type") == "text")


def _plain(name: str) -> str:
    """Return the name of a tool without that of its MCP server."""
    found = _MCP.fullmatch(name)
    return found["tool"] if found else name


def _declared(name: str, body: Mapping[str, Any]) -> str:
    """Return the name by which a request declares a tool; an unknown one is left as it is."""
    names = [str(tool.get("name")) for tool in body.get("tools") or () if isinstance(tool, dict)]
    if name in names:
        return name
    return next((full for full in names if _plain(full) == name), name)


def _events(reply: Reply, body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    content = list(_content(reply, body))
    begun: dict[str, Any] = {
        "content": [],
        "stop_reason": None,
        "usage": {**_usage(reply), "output_tokens": 1},
    }
    yield {"type": "message_start", "message": {**_message(reply, body), **begun}}
    for index, block in enumerate(content):
        yield {"type": "content_block_start", "index": index, "content_block": _begun(block)}
        for delta in _deltas(block):
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    if reply.step.stream_error:
        yield _stream_error(reply)
        return
    delta = {"stop_reason": _stop_reason(reply, content), "stop_sequence": None}
    yield {"type": "message_delta", "delta": delta, "usage": _usage(reply)}
    yield {"type": "message_stop"}


def _message(reply: Reply, body: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": f"msg_{reply.number}",
        "type": "message",
        "role": "assistant",
        "model": str(body.get("model", "scripted")),
        "stop_sequence": None,
    }


def _usage(reply: Reply) -> dict[str, int]:
    """Return the counts; this vendor's input tokens are those that no cache held."""
    counts = reply.step.usage or DEFAULT_USAGE
    cached = counts["cached_input_tokens"]
    return {
        "input_tokens": max(counts["input_tokens"] - cached, 0),
        "output_tokens": counts["output_tokens"],
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
    }


def _stop_reason(reply: Reply, content: list[Block]) -> str:
    cause = reply.step.incomplete
    if cause:
        return _STOPS.get(cause, cause)
    used = any(block["type"] == "tool_use" for block in content)
    return "tool_use" if used else "end_turn"


def _stream_error(reply: Reply) -> dict[str, Any]:
    error = reply.step.stream_error
    code, message = (error.code, error.message) if error else ("", "")
    return _error(code if code in _ERRORS.values() else "api_error", message)


def _error(kind: str, message: str) -> dict[str, Any]:
    detail = {"type": kind, "message": message}
    return {"type": "error", "error": detail, "request_id": "req_scripted"}


def _content(reply: Reply, body: Mapping[str, Any]) -> Iterator[Block]:
    step = reply.step
    if step.think:
        yield {"type": "thinking", "thinking": step.think, "signature": _SIGNATURE}
    if step.say:
        yield {"type": "text", "text": step.say}
    for call, call_id in zip(step.calls, reply.call_ids, strict=True):
        for number, (name, arguments) in enumerate(_uses(call, body)):
            use_id = _numbered(call_id, number)
            yield {"type": "tool_use", "id": use_id, "name": name, "input": dict(arguments)}


def _numbered(call_id: str, number: int) -> str:
    """Return the id of one of the uses that a call has become; the first has the call's own."""
    head, mark, tail = call_id.rpartition("__")
    return f"{head}-{number}{mark}{tail}" if number else call_id


def _uses(call: Call, body: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if call.kind == "shell":
        yield "Bash", {"command": call.arguments["cmd"]}
    elif call.kind == "patch":
        yield from _patched(str(call.arguments["patch"]))
    elif call.namespace:
        yield f"{call.namespace}__{call.tool}", call.arguments
    else:
        yield _declared(call.tool, body), call.arguments


def _patched(patch: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Return the tool uses that do what a patch says; each place of a file is an Edit."""
    found = list(_FILE.finditer(patch))
    ends = [match.start() for match in found[1:]] + [len(patch)]
    for match, end in zip(found, ends, strict=True):
        path = match["path"].strip()
        lines = patch[match.end() : end].partition("*** End Patch")[0].strip("\n").split("\n")
        if match["act"] == "Add":
            yield "Write", {"file_path": path, "content": _side(lines, "+")}
        elif match["act"] == "Delete":
            yield "Bash", {"command": f"rm -- {shlex.quote(path)}"}
        else:
            for hunk in _hunks(lines):
                texts = {"old_string": _side(hunk, " -"), "new_string": _side(hunk, " +")}
                yield "Edit", {"file_path": path, **texts}


def _hunks(lines: list[str]) -> Iterator[list[str]]:
    hunk: list[str] = []
    for line in [*lines, "@@"]:
        if not line.startswith("@@"):
            hunk.append(line)
        elif hunk:
            yield hunk
            hunk = []


def _side(lines: list[str], marks: str) -> str:
    return "".join(f"{line[1:]}\n" for line in lines if line[:1] in marks and line)


def _begun(block: Block) -> Block:
    empty: dict[str, Block] = {
        "text": {"text": ""},
        "thinking": {"thinking": "", "signature": ""},
        "tool_use": {"input": {}},
    }
    return {**block, **empty[block["type"]]}


def _deltas(block: Block) -> Iterator[dict[str, Any]]:
    if block["type"] == "text":
        yield from ({"type": "text_delta", "text": piece} for piece in pieces(block["text"]))
    elif block["type"] == "thinking":
        for piece in pieces(block["thinking"]):
            yield {"type": "thinking_delta", "thinking": piece}
        yield {"type": "signature_delta", "signature": block["signature"]}
    else:
        yield {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
