"""A small MCP server over stdio with one tool, which tells the variable WORD."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}
TOOL = {"name": "tell_word", "description": "Tells the word.", "inputSchema": SCHEMA}


def result(method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        info = {"name": "small", "version": "1"}
        version = params["protocolVersion"]
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        return {"tools": [TOOL]}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": f"the word is {os.environ['WORD']}"}]}
    return {}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        answer = result(message["method"], message.get("params") or {})
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer}))
        sys.stdout.write("\n")
        sys.stdout.flush()
