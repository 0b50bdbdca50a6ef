"""`prsm diff`: what is different between two sessions."""

from __future__ import annotations

import click

from prsm_core.cli.callers import agents_may
from prsm_core.cli.options import json_option, workspace_option


@click.command(short_help="Compare two sessions.")
@click.argument("a")
@click.argument("b")
@workspace_option
@json_option
@agents_may
def diff(a: str, b: str, workspace: str, as_json: bool) -> None:
    """Compare what was done in the sessions A and B, the first difference first.

    Agents are compared by their names: how they were spawned, what was decided for them, their
    calls, messages, files, and how they ended. Times, ids, and who was faster count for nothing.
    """
    from prsm_core.cli.sessions.diffing import print_diff
    from prsm_core.loop.run import run_to_end

    run_to_end(print_diff(workspace, a, b, as_json=as_json))
