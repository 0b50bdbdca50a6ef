"""`prsm prompt`: tells something to an agent of a session that another process runs."""

from __future__ import annotations

import click

from prsm_core.cli.callers import agents_may
from prsm_core.cli.options import image_option, text_argument, workspace_option


@click.command(short_help="Tell something to an agent of a running session.")
@click.argument("agent")
@text_argument("text", "TEXT")
@click.option(
    "--delivery",
    type=click.Choice(["inject", "queue", "interrupt"]),
    default="inject",
    show_default=True,
    help="Into its running turn, at its next wait or turn, or in place of the running turn.",
)
@image_option
@click.option("--session", metavar="ID", help="Its session; the newest that runs if not given.")
@workspace_option
@agents_may
def prompt(
    agent: str,
    text: str,
    delivery: str,
    session: str | None,
    workspace: str,
    images: tuple[str, ...],
) -> None:
    """Tell TEXT to AGENT, a name or the beginning of an id.

    @PATH in it shows the model a file of the workspace, @PATH:10-40 some of its lines, a folder
    what is in it.

    What cannot be put into the running turn, because its provider takes nothing there, is read at
    the agent's next wait or turn. Exits with 1 when no such agent runs, with 2 for an image that
    is none, or that its provider takes none of.
    """
    from prsm_core.cli.control import prompt_agent
    from prsm_core.loop.run import run_to_end

    run_to_end(prompt_agent(workspace, session, agent, text, delivery, images))
