"""The settings files of agents that ask nothing, or not enough, without them; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prsm_acp.prompt import SERVER

if TYPE_CHECKING:
    from collections.abc import Collection

    from prsm_core import McpServer

    Json = dict[str, Any]

LONG_WAIT_MS = 86_400_000  # a call that waits for another agent may take a day


def qwen(own: McpServer | None, others: Collection[str]) -> Json:
    """Return Qwen Code's settings of the system, which win over the user's and the workspace's.

    Args:
        own: PRSM's own server; the agent asks for none of its tools.
        others: The names of the servers that the agent has besides.
    """
    settings: Json = {
        "$version": 4,
        "general": {"enableAutoUpdate": False},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "disableAllHooks": True,  # one of them may give leave in our place
        "permissions": {
            "ask": ["Bash", "Read", "Edit", "WebFetch", "Monitor"],
            # Without the search every tool is offered at once, PRSM's too.
            # An agent of its own would not be PRSM's child.
            "deny": ["tool_search", "agent"],
        },
        "mcp": {"allowed": [SERVER, *others]},
    }
    if own is not None:
        settings["mcpServers"] = {SERVER: {**_started(own), "trust": True}}
    return settings


def opencode(own: McpServer | None, others: Collection[str]) -> Json:
    """Return what OpenCode reads beside the user's own configuration, wherever its servers are."""
    return {
        "$schema": "https://opencode.ai/config.json",
        "autoupdate": False,
        "share": "disabled",
        "agent": {"title": {"disable": True}},  # a request of its own, to a model nobody named
        "experimental": {
            "mcp_timeout": LONG_WAIT_MS,  # else it gives up a call after a minute
            "continue_loop_on_deny": True,  # else a refused call ends the turn
        },
    }


def copilot(own: McpServer | None, others: Collection[str]) -> Json:
    """Return Copilot's servers beside the user's own: over ACP it takes none that it starts."""
    servers = {SERVER: {"type": "local", "tools": ["*"], **_started(own)}} if own else {}
    return {"mcpServers": servers}


def _started(own: McpServer) -> Json:
    return {
        "command": own.command,
        "args": list(own.args),
        "env": dict(own.env),
        "timeout": LONG_WAIT_MS,
    }
