"""The orchestration tools as an MCP server inside this process, over the CLI's own channel.

A server that has only tools needs few methods and answers at once. A library's session with streams
and tasks of its own would have nothing to wait for.
"""

from __future__ import annotations

import json
from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any

from prsm_claude.naming import SERVER
from prsm_core.kit import as_object, read_base64

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prsm_core import ToolOutcome, ToolSpec

    Json = dict[str, Any]

_UNASKED = "this call was not authorized, so it was not made"
_NO_METHOD, _BAD_PARAMS = -32601, -32602  # of JSON-RPC


class ToolServer:
    """Hands out the answers that the hook of each call has prepared.

    The hook does the work: it knows the model's id of the call and can let go of one that waits.
    The CLI's call of this server has only a name and arguments.
    """

    def __init__(self, specs: Sequence[ToolSpec]) -> None:
        self._specs = specs
        self._prepared: defaultdict[str, deque[Json]] = defaultdict(deque)

    async def prepare(self, name: str, arguments: Mapping[str, Any], outcome: ToolOutcome) -> None:
        """Keep the answer for the call that the CLI makes next."""
        answer = _answer(outcome.text, is_error=outcome.is_error)
        answer["content"] += [
            {"type": "image", "mimeType": kind, "data": data}
            for kind, data in await read_base64(outcome.images)
        ]
        self._prepared[_key(name, arguments)].append(answer)

    def forget(self) -> None:
        """Drop answers that nobody fetched: their turn is over."""
        self._prepared.clear()

    def answer(self, message: Mapping[str, Any]) -> Json:
        """Return the JSON-RPC answer to a message; an empty result for a notification."""
        params = as_object(message.get("params"))
        method = str(message.get("method"))
        if "id" not in message:
            return {"jsonrpc": "2.0", "result": {}}
        if method == "initialize":
            return _result(message, _greeting(params))
        if method == "tools/list":
            return _result(message, {"tools": [_listed(spec) for spec in self._specs]})
        if method == "tools/call":
            return self._call(message, params)
        if method == "ping":
            return _result(message, {})
        return _error(message, _NO_METHOD, f"there is no method {method}")

    def _call(self, message: Mapping[str, Any], params: Mapping[str, Any]) -> Json:
        name, arguments = params.get("name"), params.get("arguments") or {}
        if not isinstance(arguments, dict) or all(name != spec.name for spec in self._specs):
            return _error(message, _BAD_PARAMS, f"there is no tool {name} with such arguments")
        answers = self._prepared.get(_key(str(name), arguments))
        if not answers:
            return _result(message, _answer(_UNASKED, is_error=True))
        return _result(message, answers.popleft())


def _greeting(params: Mapping[str, Any]) -> Json:
    return {
        "protocolVersion": params.get("protocolVersion"),  # tools are the same in all versions
        "capabilities": {"tools": {}},
        "serverInfo": {"name": SERVER, "version": "1"},
    }


def _listed(spec: ToolSpec) -> Json:
    tool: Json = {
        "name": spec.name,
        "description": spec.description,
        "inputSchema": {"type": "object", "properties": {}, **spec.input_schema},
    }
    if spec.parallel:  # calls of other tools wait for each other
        tool["annotations"] = {"readOnlyHint": True}
    return tool


def _answer(text: str, *, is_error: bool) -> Json:
    return {"content": [{"type": "text", "text": text}], "isError": is_error}


def _result(message: Mapping[str, Any], result: Json) -> Json:
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


def _error(message: Mapping[str, Any], code: int, text: str) -> Json:
    return {"jsonrpc": "2.0", "id": message["id"], "error": {"code": code, "message": text}}


def _key(name: str, arguments: Mapping[str, Any]) -> str:
    return f"{name} {json.dumps(arguments, sort_keys=True, default=str)}"
