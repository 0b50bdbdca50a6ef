"""MCP servers that begin, as programs of any name."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_TEXT = """\
import json, sys
able = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {}}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": able}), flush=True)
"""


def server_program(folder: Path, name: str) -> str:
    """Write a server, and return its command."""
    path = folder / name
    path.write_text(f"#!{sys.executable} -I\n{_TEXT}")
    path.chmod(0o755)
    return str(path)
