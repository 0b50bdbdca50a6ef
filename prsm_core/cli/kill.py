"""`prsm kill`: ends an agent of a session that another process runs."""

from __future__ import annotations

import click

from prsm_core.cli.callers import agents_may
from prsm_core.cli.options import workspace_option


@click.command(short_help="Kill an agent of a running session.")
@click.argument("agent")
@click.option("--session", metavar="ID", help="Its session; the newest that runs if not given.")
@workspace_option
@agents_may
def kill(agent: str, session: str | None, workspace: str) -> None:
    """Kill AGENT, a name or the beginning of an id, and all its descendants.

    What they said so far is kept. Killing the master ends the run. Exits with 1 when no such
    agent runs.
    """
    from prsm_core.cli.control import kill_agent
    from prsm_core.loop.run import run_to_end

    run_to_end(kill_agent(workspace, session, agent))
