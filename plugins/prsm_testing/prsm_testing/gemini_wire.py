"""The Gemini generateContent wire format of a scripted model: requests in, chunks out.

What the command line asks beside the conversation (which model fits, who speaks next, whether it
runs in a loop) names the schema of its answer: it gets the smallest instance of that schema, and
no step of the scenario is used up.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from prsm_demo.script.reading import DEFAULT_USAGE

from prsm_testing.playback import Conversation, Reply, pieces, strings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prsm_testing.playback import Call, HttpError

_PATH = re.compile(r"/v1beta/models/(?P<model>[^/:]+):(?P<verb>\w+)")
_LIST = "/v1beta/models"
_MCP_NAME = re.compile(r"mcp_[^_]+_(?P<tool>.+)")
_UNTRUSTED = re.compile(r"<untrusted_context>\n(.*)\n</untrusted_context>", re.DOTALL)
_NEW_FILE = re.compile(r"\*\*\* Begin Patch\n\*\*\* Add File: (.+)\n((?:\+.*\n)*)\*\*\* End Patch")
_RETRY_IN = re.compile(r"retry in ([\d.]+s)")
_STATUS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
}
_FINISH = {"max_output_tokens": "MAX_TOKENS", "content_filter": "SAFETY"}
_EMPTY: Mapping[str, Any] = {
    "string": "",
    "number": 0,
    "integer": 0,
    "boolean": False,
    "array": [],
    "null": None,
}
_MODELS = ("gemini-2.5-pro", "gemini-2.5-flash")


class GeminiGenerateContent:
    """`POST <base>/v1beta/models/MODEL:streamGenerateContent`, as Gemini CLI speaks it."""

    def serves(self, path: str) -> bool:
        return _verb(path) in ("streamGenerateContent", "generateContent")

    def aside(self, method: str, path: str, body: Mapping[str, Any]) -> bytes | None:
        """Answer what no scenario knows: models, token counts, and answers in a given schema."""
        if method == "GET" and path == _LIST:
            methods = {"supportedGenerationMethods": ["generateContent"]}
            models = [{"name": f"models/{name}", **methods} for name in _MODELS]
            return json.dumps({"models": models}).encode()
        if method != "POST":
            return None
        if _verb(path) == "countTokens":
            return json.dumps({"totalTokens": DEFAULT_USAGE["input_tokens"]}).encode()
        schema = _answer_schema(body) if self.serves(path) else None
        if schema is None:
            return None
        part = {"text": json.dumps(smallest(schema))}
        answer = json.dumps(_chunk([part], finish="STOP") | {"usageMetadata": _usage(None)})
        streamed = self.is_streamed(path, body)
        return (f"data: {answer}\n\n" if streamed else answer).encode()

    def is_streamed(self, path: str, body: Mapping[str, Any]) -> bool:
        return _verb(path) == "streamGenerateContent"

    def read(self, body: Mapping[str, Any]) -> Conversation:
        contents = [c for c in body.get("contents") or () if isinstance(c, dict)]
        return Conversation(
            user=tuple(text for c in contents if c.get("role") != "model" for text in _texts(c)),
            system=tuple(_texts(body.get("systemInstruction") or {})),
            outputs=tuple(_outputs(contents)),
            text="\n".join(strings(dict(body))),
        )

    def error(self, error: HttpError) -> bytes:
        """Return the JSON body of an HTTP error; `retry in 2s` in its message is told twice."""
        status = _STATUS.get(error.status, "UNKNOWN")
        return json.dumps(
            {"error": _error(error.status, error.code or status, error.message)}
        ).encode()

    def whole(self, reply: Reply, body: Mapping[str, Any]) -> bytes:
        return json.dumps(_end(_chunk(list(_parts(reply, body))), reply)).encode()

    def stream(self, reply: Reply, body: Mapping[str, Any]) -> list[bytes]:
        return [f"data: {json.dumps(chunk)}\n\n".encode() for chunk in _chunks(reply, body)]


def smallest(schema: Mapping[str, Any]) -> Any:
    """Return the smallest instance of a JSON schema, as far as the command line uses schemas."""
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][0]
    for choice in ("anyOf", "oneOf"):
        if schema.get(choice):
            return smallest(schema[choice][0])
    kind = schema.get("type", "object")
    kind = str(kind[0] if isinstance(kind, list) else kind).lower()
    if kind == "object":
        properties = schema.get("properties") or {}
        return {name: smallest(properties.get(name, {})) for name in schema.get("required", ())}
    if kind == "array":
        return [smallest(schema.get("items") or {})] * int(schema.get("minItems", 0))
    return schema.get("minimum", _EMPTY[kind]) if kind in ("number", "integer") else _EMPTY[kind]


def _verb(path: str) -> str | None:
    found = _PATH.fullmatch(path)
    return found["verb"] if found else None


def _answer_schema(body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    config = body.get("generationConfig") or {}
    schema = config.get("responseJsonSchema") or config.get("responseSchema")
    return schema if isinstance(schema, Mapping) else None


def _parts_of(content: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [part for part in content.get("parts") or () if isinstance(part, dict)]


def _texts(content: Mapping[str, Any]) -> Iterator[str]:
    return (str(part["text"]) for part in _parts_of(content) if "text" in part)


def _outputs(contents: list[dict[str, Any]]) -> Iterator[tuple[str, str, str]]:
    """Yield call id, plain name and text of the answers to calls."""
    for content in contents:
        for part in _parts_of(content):
            answer = part.get("functionResponse")
            if isinstance(answer, dict):
                name = _plain(str(answer.get("name", "")))
                yield str(answer.get("id", "")), name, _answer_text(answer.get("response"))


def _answer_text(response: Any) -> str:
    """Return the text of an answer, out of the wrapping that an MCP result gets."""
    told = response if isinstance(response, dict) else {}
    text = next((told[key] for key in ("output", "error") if key in told), response)
    text = text if isinstance(text, str) else json.dumps(text)
    wrapped = _UNTRUSTED.fullmatch(text)
    return wrapped[1] if wrapped else text


def _plain(name: str) -> str:
    found = _MCP_NAME.fullmatch(name)
    return found["tool"] if found else name


def _declared(name: str, body: Mapping[str, Any]) -> str:
    """Return the name by which a request declares a tool, which may be that of an MCP server."""
    names = [
        str(declaration.get("name"))
        for tool in body.get("tools") or ()
        for declaration in tool.get("functionDeclarations") or ()
    ]
    if name in names:
        return name
    return next((known for known in names if _plain(known) == name), name)


def _chunks(reply: Reply, body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    parts = [split for part in _parts(reply, body) for split in _split(part)] or [{"text": ""}]
    for part in parts[:-1]:
        yield _chunk([part], number=reply.number)
    broken = reply.step.stream_error
    if broken is None:
        yield _end(_chunk([parts[-1]], number=reply.number), reply)
    else:
        yield _chunk([parts[-1]], number=reply.number)
        yield {"error": _error(500, broken.code, broken.message)}


def _end(chunk: dict[str, Any], reply: Reply) -> dict[str, Any]:
    early = reply.step.incomplete
    chunk["candidates"][0]["finishReason"] = _FINISH.get(early, early) if early else "STOP"
    return {**chunk, "usageMetadata": _usage(reply.step.usage)}


def _chunk(
    parts: list[dict[str, Any]], *, number: int = 0, finish: str | None = None
) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    return {
        "candidates": [candidate],
        "modelVersion": "scripted",
        "responseId": f"resp_{number}",
    }


def _parts(reply: Reply, body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    step = reply.step
    if step.think:
        yield {"text": step.think, "thought": True}
    if step.say:
        yield {"text": step.say}
    for call, call_id in zip(step.calls, reply.call_ids, strict=True):
        name, arguments = _named(call, body)
        part = {"functionCall": {"id": call_id, "name": name, "args": arguments}}
        first = call_id == reply.call_ids[0]
        yield part | ({"thoughtSignature": "c2NyaXB0ZWQ="} if first else {})


def _split(part: dict[str, Any]) -> list[dict[str, Any]]:
    if "text" not in part:
        return [part]
    return [{**part, "text": piece} for piece in pieces(part["text"])]


def _named(call: Call, body: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    if call.kind == "shell":
        return "run_shell_command", {"command": call.arguments["cmd"]}
    if call.kind == "patch":
        new = _NEW_FILE.fullmatch(str(call.arguments["patch"]).strip())
        if new is None:
            raise ValueError("Gemini has no patches: only one that adds one file can be played")
        lines = [line[1:] for line in new[2].splitlines(keepends=True)]
        return "write_file", {"file_path": new[1], "content": "".join(lines)}
    return _declared(call.tool, body), call.arguments


def _usage(counts: Mapping[str, int] | None) -> dict[str, int]:
    given = counts or DEFAULT_USAGE
    return {
        "promptTokenCount": given["input_tokens"],
        "cachedContentTokenCount": given["cached_input_tokens"],
        "candidatesTokenCount": given["output_tokens"] - given["reasoning_tokens"],
        "thoughtsTokenCount": given["reasoning_tokens"],
        "totalTokenCount": given["input_tokens"] + given["output_tokens"],
    }


def _error(code: int, status: str, message: str) -> dict[str, Any]:
    delay = _RETRY_IN.search(message)
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo"}
    details = [info | {"retryDelay": delay[1]}] if delay else []
    return {"code": code, "message": message, "status": status, "details": details}
