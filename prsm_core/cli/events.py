"""`prsm events`: what happened in a session, in order."""

from __future__ import annotations

import click

from prsm_core.cli.callers import agents_may
from prsm_core.cli.options import follow_option, json_option, last_option, workspace_option


@click.command(short_help="Print the events of a session.")
@click.argument("session", required=False)
@click.option(
    "--after",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="SEQ",
    help="Begin after this event.",
)
@last_option
@follow_option
@workspace_option
@json_option
@agents_may
def events(
    session: str | None,
    after: int,
    last: int | None,
    follow: bool,
    workspace: str,
    as_json: bool,
) -> None:
    """Print the events of a session, by default the newest of this repository.

    SESSION may be the beginning of an id, as long as it fits one session only. With --json each
    line is one event envelope. With --follow, --last says where to begin.
    """
    from prsm_core.cli.reading import print_events
    from prsm_core.loop.run import run_to_end

    run_to_end(
        print_events(workspace, session, after=after, last=last, follow=follow, as_json=as_json)
    )
