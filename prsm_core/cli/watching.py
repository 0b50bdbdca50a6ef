"""`prsm tree`, `events`, `history`, `diff`, `replay`: look at what happened in sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from prsm_core.cli.callers import agents_may
from prsm_core.cli.options import follow_option, json_option, last_option, workspace_option
from prsm_core.cli.run_options import finite

if TYPE_CHECKING:
    from prsm_core.cli.launch import Launch


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
def events(**given: Any) -> None:
    """Print the events of a session, by default the newest of this repository.

    SESSION may be the beginning of an id, as long as it fits one session only. With --json each
    line is one event envelope. With --follow, --last says where to begin.
    """
    from prsm_core.cli.reading import print_events
    from prsm_core.loop.run import run_to_end

    run_to_end(print_events(**given))


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
def history(**given: Any) -> None:
    """Show what AGENT, a name or the beginning of an id, was told, said and did.

    With --follow, --last says where to begin, and --json prints one entry a line.
    """
    from prsm_core.cli.reading import print_history
    from prsm_core.loop.run import run_to_end

    run_to_end(print_history(**given))


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
def replay(launch: Launch, /, **given: Any) -> int:
    """Show what happened in SESSION, by default the newest, event by event.

    Nothing is run: no agent, no command, and what was asked is only shown. Ctrl-C ends it.
    """
    from prsm_core.cli.sessions.replaying import Replay, replay_session

    return replay_session(launch, Replay(**given))
