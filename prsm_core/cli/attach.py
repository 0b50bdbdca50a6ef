"""`prsm attach`: a second terminal for a session that another process runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from prsm_core.cli.callers import agents_may
from prsm_core.cli.options import workspace_option

if TYPE_CHECKING:
    from prsm_core.cli.launch import Launch


@click.command(short_help="Follow a running session and answer it.")
@click.argument("session", required=False)
@click.option("--ui", metavar="NAME", help="Show it in this frontend, rather than line by line.")
@workspace_option
@click.pass_obj
@agents_may
def attach(launch: Launch, session: str | None, ui: str | None, workspace: str) -> int:
    """Show what happens in a session that runs elsewhere, and answer what its agents ask.

    SESSION may be the beginning of an id; without it, it is the newest session of this repository
    that runs. Requests are put to you as in `prsm run`; whoever answers first counts. Ctrl-C or
    the end of input leaves, and the run goes on. Where stdin is no terminal nothing is asked.
    With --ui an installed frontend does all that over the session's socket; one that ends with its
    run, as json does, is given the run that is open.

    Exits as `prsm run` would with the run that ended last, with 0 if you leave before, with 1 if
    the process of the session died.
    """
    from prsm_core.cli.attaching import attach_frontend

    return attach_frontend(launch, workspace, session, ui)
