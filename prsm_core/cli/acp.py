"""`prsm acp`: the frontend of that name, which a package of its own brings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from prsm_core.cli.options import workspace_option
from prsm_core.cli.run_options import set_option

if TYPE_CHECKING:
    from prsm_core.cli.launch import Launch


@click.command(short_help="Be the agent of an editor, over ACP (package prsm-acp).")
@workspace_option
@set_option
@click.pass_obj
def acp(launch: Launch, workspace: str, sets: tuple[str, ...]) -> int:
    """Speak the Agent Client Protocol on stdin and stdout, as an editor's agent.

    It is the frontend `acp` of the package prsm-acp, and takes what the section `frontends.acp` of
    the configuration says: --set frontends.acp.KEY=VALUE.
    """
    from prsm_core.cli.opening import Opening, open_frontend

    request = Opening(workspace=workspace, sets=sets)
    return open_frontend(launch, request, "acp", package="prsm-acp")
