"""`prsm replay`: show a session again, from its log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from prsm_core.cli.callers import agents_may
from prsm_core.cli.options import workspace_option
from prsm_core.cli.run_options import finite

if TYPE_CHECKING:
    from prsm_core.cli.launch import Launch


@click.command(short_help="Show a session again, from its log.")
@click.argument("session", required=False)
@click.option(
    "--to", type=click.IntRange(min=1), metavar="SEQ", help="End with the event of this number."
)
@click.option(
    "--speed",
    type=click.FloatRange(min=0, min_open=True, max=1e6),
    callback=finite,  # NaN is in every range
    metavar="X",
    help="So many times as fast as it was; without it, as fast as it goes.",
)
@click.option(
    "--ui", metavar="NAME", default="console", show_default=True, help="Show it in this frontend."
)
@workspace_option
@click.pass_obj
@agents_may
def replay(
    launch: Launch,
    session: str | None,
    to: int | None,
    speed: float | None,
    ui: str,
    workspace: str,
) -> int:
    """Show what happened in SESSION, by default the newest, event by event.

    Nothing is run: no agent, no command, and what was asked is only shown. Ctrl-C ends it.
    """
    from prsm_core.cli.sessions.replaying import Replay, replay_session

    return replay_session(
        launch, Replay(workspace=workspace, session=session, to=to, speed=speed, ui=ui)
    )
