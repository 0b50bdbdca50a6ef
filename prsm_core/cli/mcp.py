"""`prsm mcp`: an MCP client, such as the user's own Claude Code, leads a tree of agents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from prsm_core.cli.callers import agents_may_unless
from prsm_core.cli.options import workspace_option
from prsm_core.cli.run_options import (
    UNATTENDED_SECONDS,
    budget_tokens_option,
    budget_usd_option,
    finite,
    mode_option,
    on_ask_option,
    set_option,
    unattended_option,
    widens,
    without_plugin_option,
)

if TYPE_CHECKING:
    from prsm_core.cli.launch import Launch


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
@workspace_option
@click.option("--provider", metavar="NAME", help="Provider of the agents that name no model.")
@click.option("--model", help="Their model: an alias, provider/model, or an id.")
@mode_option
@click.option("--session", metavar="ID", help="Run in this session, not in a new one.")
@on_ask_option
@unattended_option
@click.option(
    "--patience",
    "patience_s",
    type=float,
    callback=finite,
    metavar="SECONDS",
    help="How long a call may wait before it is answered `pending`. Default: as MCP_TOOL_TIMEOUT "
    "allows, or 300.",
)
@budget_usd_option
@budget_tokens_option
@without_plugin_option
@set_option
@click.pass_obj
@agents_may_unless(widens)
def mcp(launch: Launch, /, **options: Any) -> int:
    """Run the command; its help is above."""
    from prsm_core.cli.leading import Lead, lead

    options["unattended_s"] = options["unattended_s"] or UNATTENDED_SECONDS
    return lead(launch, Lead(**options))
