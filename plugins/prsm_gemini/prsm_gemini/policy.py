"""The policy file of an agent: what of Gemini's own tools it has, and what is asked; pure.

A tool that no rule names is denied, so that a newer Gemini brings no tool that nobody knows. A
tool that is denied whatever its arguments is not even offered to the model.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from prsm_gemini.tools import SERVER, SHELL

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# Above everything that settings can say (950 is the most), below nothing but the administrator.
_DENIED, _MCP, _NAMED, _SHELL, _OWN = 960, 965, 970, 980, 990
_WHY = "this agent does not have the tool"


def policy(
    tools: Sequence[str], own_tools: Sequence[str], servers: Iterable[str], *, decision: str
) -> str:
    """Return a policy as TOML.

    Args:
        tools: Gemini's names of the tools the agent has.
        own_tools: The names of PRSM's own tools, which ask for themselves.
        servers: The names of other MCP servers.
        decision: `allow` where a hook asks for each call, `ask_user` where the client is asked.
    """
    rules: list[dict[str, Any]] = [
        {"toolName": "*", "decision": "deny", "denyMessage": _WHY, "priority": _DENIED}
    ]
    for name in servers:
        rules.append({"mcpName": name, "toolName": "*", "decision": decision, "priority": _NAMED})
        # Over ACP Gemini has another name for the server, and only this is true of its tools.
        rules.append({"toolName": "mcp_*", "decision": decision, "priority": _MCP})
    if own_tools:
        named = [f"mcp_{SERVER}_{tool}" for tool in own_tools]
        rules.append({"toolName": named, "decision": "allow", "priority": _OWN})
    if tools:
        given = {"toolName": list(tools), "decision": decision, "priority": _NAMED}
        rules.append({**given, "allowRedirection": True})
    if SHELL in tools:
        # With a pattern, what Gemini takes for safe or for dangerous is decided here too.
        shell = {"toolName": SHELL, "argsPattern": ".", "decision": decision, "priority": _SHELL}
        rules.append({**shell, "allowRedirection": True})
    return "\n".join(_rule(rule) for rule in rules)


def _rule(rule: dict[str, Any]) -> str:
    # A JSON text, boolean, number or list of texts is a TOML one.
    lines = [f"{key} = {json.dumps(value)}" for key, value in rule.items()]
    return "\n".join(["[[rule]]", *lines, ""])
