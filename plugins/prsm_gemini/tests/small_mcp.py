"""A small MCP server over stdio with one tool, `echo`."""

from __future__ import annotations

import json
import sys

ECHO = {
    "name": "echo",
    "description": "Says it again.",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
}


def answer(method: str, params: dict) -> dict | None:
    """Return the result of a request; None for a method that is not known."""
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "small", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": [ECHO]}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": params["arguments"]["text"]}]}
    return None


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    result = answer(message["method"], message.get("params") or {})
    error = {"error": {"code": -32601, "message": "no such method"}}
    told = error if result is None else {"result": result}
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **told}) + "\n")
    sys.stdout.flush()
