"""`prsm history`: the conversation of one agent."""

from __future__ import annotations

import click

from prsm_core.cli.callers import agents_may
from prsm_core.cli.options import follow_option, json_option, last_option, workspace_option


@click.command(short_help="Show the conversation of an agent.")
@click.argument("agent")
@click.option("--session", metavar="ID", help="The agent's session; the newest if not given.")
@click.option(
    "--detail",
    type=click.Choice(["full", "summary"]),
    default="full",
    show_default=True,
    help="All entries, or what was said and the names of tools.",
)
@last_option
@follow_option
@workspace_option
@json_option
@agents_may
def history(
    agent: str,
    session: str | None,
    detail: str,
    last: int | None,
    follow: bool,
    workspace: str,
    as_json: bool,
) -> None:
    """Show what AGENT, a name or the beginning of an id, was told, said and did.

    With --follow, --last says where to begin, and --json prints one entry a line.
    """
    from prsm_core.cli.reading import print_history
    from prsm_core.loop.run import run_to_end

    run_to_end(
        print_history(
            workspace, session, agent, detail=detail, last=last, follow=follow, as_json=as_json
        )
    )
