"""`prsm serve`: the frontend of that name, which a package of its own brings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from prsm_core.cli.options import workspace_option
from prsm_core.cli.run_options import set_option

if TYPE_CHECKING:
    from prsm_core.cli.launch import Launch


@click.command(short_help="Serve sessions over HTTP (package prsm-server).")
@workspace_option
@set_option
@click.pass_obj
def serve(launch: Launch, workspace: str, sets: tuple[str, ...]) -> int:
    """Serve sessions over HTTP, to browsers and to programs.

    It is the frontend `serve` of the package prsm-server, and takes what the section
    `frontends.serve` of the configuration says: --set frontends.serve.KEY=VALUE.
    """
    from prsm_core.cli.opening import Opening, open_frontend

    request = Opening(workspace=workspace, sets=sets)
    return open_frontend(launch, request, "serve", package="prsm-server")
