"""`prsm tree`: the agents of a session."""

from __future__ import annotations

import click

from prsm_core.cli.callers import agents_may
from prsm_core.cli.options import json_option, workspace_option


@click.command(short_help="Show the agents of a session.")
@click.argument("session", required=False)
@workspace_option
@json_option
@agents_may
def tree(session: str | None, workspace: str, as_json: bool) -> None:
    """Show the agents of a session, by default the newest of this repository.

    SESSION may be the beginning of an id, as long as it fits one session only.
    """
    from prsm_core.cli.reading import print_tree
    from prsm_core.loop.run import run_to_end

    run_to_end(print_tree(workspace, session, as_json=as_json))
