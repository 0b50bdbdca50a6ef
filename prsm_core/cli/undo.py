"""`prsm undo`: takes back the last restore of a snapshot."""

from __future__ import annotations

import click

from prsm_core.cli.options import json_option, workspace_option


@click.command(short_help="Take back the last restore of a snapshot.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@workspace_option
@json_option
@click.pass_context
def undo(ctx: click.Context, yes: bool, workspace: str, as_json: bool) -> None:
    """Take back the last restore of a snapshot in this folder.

    What there is now is kept as well: a second `prsm undo` goes back to it.
    """
    from prsm_core.cli.snapshots.restoring import undo_restore

    ctx.exit(undo_restore(workspace, is_sure=yes, as_json=as_json))
