"""`prsm mcp`: an MCP client, such as the user's own Claude Code, leads a tree of agents."""

from __future__ import annotations

import os
from typing import Any

import click

from prsm_core.commands import Launch, lead_options

_HELP = """Serve the orchestration tools over MCP on stdin and stdout.

The client that starts this command is the master: it spawns agents, answers their questions,
waits for their results and reads their history. In Claude Code:

\b
  claude mcp add --scope user prsm -- prsm mcp

or, for all who work on a repository, in its .mcp.json:

\b
  {"mcpServers": {"prsm": {"command": "prsm", "args": ["mcp"]}}}

What the agents ask of a person is put to the client's user, where the client can do that; else it
waits for `prsm attach` or `prsm answer` in another terminal. When the client leaves, the agents
that still run are killed and the run ends. What the client does with its own tools is its own
business: PRSM decides only what the agents may do.
"""


@click.command(help=_HELP, short_help="Let an MCP client, such as Claude Code, lead a tree.")
@lead_options(patience="as MCP_TOOL_TIMEOUT allows, or 300")
@click.pass_obj
def mcp(launch: Launch, /, patience_s: float | None, **options: Any) -> int:
    """Run the command; its help is above."""
    from prsm_mcp.leading import serve_client

    return serve_client(launch, options, patience_s, os.environ)
