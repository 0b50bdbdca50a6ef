"""Which of the user's MCP servers an agent gets."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from prsm_core.config import Settings
    from prsm_core.domain.agents import AgentRole
    from prsm_core.domain.tools import McpServer


_NONE: dict[str, McpServer] = {}  # of nearly all agents: nobody changes it


def configured_servers(settings: Settings) -> dict[str, McpServer]:
    """Return the MCP servers of the configuration by name."""
    return {name: server.to_server() for name, server in settings.mcp_servers.items()}


def choose_servers(
    settings: Settings,
    *,
    prompt: str,
    role: AgentRole,
    explicit: Mapping[str, McpServer] | None = None,
    exclude: Collection[str] = (),
) -> dict[str, McpServer]:
    """Return the servers of an agent by name.

    Explicit servers are laid over all that are configured. Without any, a configured server with
    tags is there only for agents whose role or a word of whose prompt is among them. What is
    excluded is left out in any case. They are in one order, whoever named them.
    """
    if not settings.mcp_servers and not explicit:
        return _NONE
    servers = configured_servers(settings)
    if explicit is not None:
        chosen = {**servers, **explicit}
    else:
        words = {role.value, *re.findall(r"\w+", prompt.casefold())}
        chosen = {
            name: server
            for name, server in servers.items()
            if _fits(settings.mcp_servers[name].tags, words, prompt)
        }
    return {name: chosen[name] for name in sorted(chosen) if name not in exclude}


def _fits(tags: Collection[str], words: Collection[str], prompt: str) -> bool:
    """Whether no tag limits a server, or one is a word, or stands as it is, in the prompt."""
    return not tags or any(
        tag.casefold() in words if tag.isalnum() else tag.casefold() in prompt.casefold()
        for tag in tags
    )
