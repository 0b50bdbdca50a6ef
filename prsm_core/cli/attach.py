"""`prsm attach`: a second terminal for a session that another process runs."""

from __future__ import annotations

import click

from prsm_core.cli.options import workspace_option


@click.command(short_help="Follow a running session and answer it.")
@click.argument("session", required=False)
@workspace_option
def attach(session: str | None, workspace: str) -> None:
    """Show what happens in a session that runs elsewhere, and answer what its agents ask.

    SESSION may be the beginning of an id; without it, it is the newest session of this repository
    that runs. Requests are put to you as in `prsm run`; whoever answers first counts. Ctrl-C or
    the end of input leaves, and the run goes on. Where stdin is no terminal nothing is asked.
    """
    from prsm_core.cli.attaching import attach_session
    from prsm_core.loop.run import run_to_end

    run_to_end(attach_session(workspace, session))
