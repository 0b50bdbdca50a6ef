"""`prsm sessions`: what can be done with the sessions of a repository."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from prsm_core.cli.callers import agents_may
from prsm_core.cli.options import json_option, text_argument, workspace_option

if TYPE_CHECKING:
    from prsm_core.cli.launch import Launch


@click.group(short_help="List, show, rename, delete, compact, fork, export, import.")
@click.pass_obj
def sessions(launch: Launch) -> None:
    """List, show, rename, delete, compact, fork, export and import the sessions of this repository.

    SESSION is an id, the beginning of one, or a name, as long as it fits one session only.
    """
    from prsm_core.cli.sessions.unfinished import finish

    finish(launch)


@sessions.command("list", short_help="List the sessions, newest first.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    metavar="N",
    help="At most so many; older ones are counted.",
)
@workspace_option
@json_option
@agents_may
def list_sessions(limit: int, workspace: str, as_json: bool) -> None:
    """List the sessions of this repository, newest first.

    A session whose process is dead is `interrupted`. One that has no name is called by its task.
    """
    from prsm_core.cli.sessions.listing import print_sessions
    from prsm_core.loop.run import run_to_end

    run_to_end(print_sessions(workspace, limit, as_json=as_json))


@sessions.command(short_help="Show runs, agents, last messages and what is open.")
@click.argument("session", required=False)
@click.option(
    "--messages",
    type=click.IntRange(min=0),
    default=6,
    show_default=True,
    metavar="N",
    help="How many of the last messages.",
)
@workspace_option
@json_option
@agents_may
def show(session: str | None, messages: int, workspace: str, as_json: bool) -> None:
    """Show one session, by default the newest: its runs, its agents, what was said last.

    Then what of it is open, and can be resumed.
    """
    from prsm_core.cli.sessions.showing import print_session
    from prsm_core.loop.run import run_to_end

    run_to_end(print_session(workspace, session, messages, as_json=as_json))


@sessions.command(short_help="Give a session a name.")
@click.argument("session")
@text_argument("name", "NAME")
@workspace_option
@json_option
def rename(session: str, name: str, workspace: str, as_json: bool) -> None:
    """Call SESSION NAME from now on; a blank NAME takes its name away.

    Commands that take a session find it by its name, too.
    """
    from prsm_core.cli.sessions.changing import rename_session
    from prsm_core.loop.run import run_to_end

    run_to_end(rename_session(workspace, session, name, as_json=as_json))


@sessions.command(short_help="Delete a session for good.")
@click.argument("session")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option(
    "--discard-worktrees",
    is_flag=True,
    help="With --yes: also worktrees of its agents, with what is nowhere else.",
)
@workspace_option
@json_option
@click.pass_obj
def delete(
    launch: Launch, session: str, yes: bool, discard_worktrees: bool, workspace: str, as_json: bool
) -> None:
    """Delete all that PRSM holds of SESSION: its runs, agents, messages, calls, events.

    So do the conversations that providers keep in folders of PRSM's own, and its log. Files that
    its agents wrote stay. So does an image of a prompt that another session shows. Worktrees of its
    agents that are not merged go, with their branches: you are asked, and --yes alone does not say
    so. A session that a process owns is not deleted.

    Where this is killed the session is there as it was, or the next command removes what is left.
    """
    from prsm_core.cli.sessions.changing import delete_session
    from prsm_core.cli.sessions.keepers import keepers_of
    from prsm_core.cli.setup import load_setup
    from prsm_core.engine.processes.launcher import install_child_watcher
    from prsm_core.loop.run import run_to_end

    setup = load_setup(launch, workspace)
    keepers = keepers_of(setup.plugins, setup.paths)
    install_child_watcher()
    how = {"is_sure": yes, "with_trees": discard_worktrees, "as_json": as_json}
    run_to_end(delete_session(workspace, session, keepers, **how))


@sessions.command(short_help="Give the disk space of deleted sessions back.")
@workspace_option
@json_option
def compact(workspace: str, as_json: bool) -> None:
    """Give the disk space of deleted sessions back to the file system.

    `prsm sessions delete` does so by itself once a quarter of the ledger, and 4 MB, are free. No
    process may run a session of this repository. A kill or a full disk leaves the ledger as it was.
    """
    from prsm_core.cli.sessions.changing import compact_ledger
    from prsm_core.loop.run import run_to_end

    run_to_end(compact_ledger(workspace, as_json=as_json))


@sessions.command(short_help="Go on from a point of a session, in another one.")
@click.argument("session", required=False)
@click.option(
    "--at",
    metavar="SEQ|AGENT:TURN",
    help="After the commit of this event, or of the end of this turn; as it is now if not given.",
)
@click.option("--prompt", metavar="TEXT", help="Tell this to its master.")
@click.option(
    "--model",
    "models",
    multiple=True,
    metavar="AGENT=PROVIDER/MODEL",
    help="Let an agent go on with another model.",
)
@click.option("--name", metavar="NAME", help="Call it so.")
@workspace_option
@json_option
@click.pass_obj
def fork(launch: Launch, /, **given: Any) -> None:
    """Make a session that begins as SESSION, by default the newest, was at a point of it.

    What happened before is shared, not copied. What was open is open in both: `prsm resume` goes
    on with the fork, asks again what waited for a person, and never touches SESSION. Its agents
    have new ids, and are found by the old ones, too; their conversations are rebuilt from the
    ledger. SESSION may run meanwhile.

    Files are not forked: the agents of both find the folder as it is.
    """
    from prsm_core.cli.sessions.forking import Fork
    from prsm_core.cli.sessions.forking import fork as make_fork

    make_fork(launch, Fork(**given))


@sessions.command(short_help="Write a session to a file.")
@click.argument("session", required=False)
@click.option(
    "--format",
    "form",
    type=click.Choice(["json", "jsonl", "html"]),
    default="json",
    show_default=True,
    help="All of it, its events, or a page to read.",
)
@click.option(
    "-o", "--output", metavar="FILE", help="A file, or a folder to put it in; stdout if not given."
)
@workspace_option
@agents_may
def export(session: str | None, form: str, output: str | None, workspace: str) -> None:
    """Write SESSION, by default the newest, to a file or to stdout.

    json is what `prsm sessions import` takes back: all that the ledger has of it. jsonl has one
    event a line. html is one page for any browser, which loads nothing and runs nothing.
    """
    from prsm_core.cli.sessions.exporting import export_session
    from prsm_core.loop.run import run_to_end

    run_to_end(export_session(workspace, session, form, output))


@sessions.command("import", short_help="Take in a session that was exported.")
@click.argument("file")
@workspace_option
@json_option
def import_(file: str, workspace: str, as_json: bool) -> None:
    """Take the session of FILE into the ledger of this repository; "-" is stdin.

    FILE is what `prsm export` wrote. Where the session is there already, or one of its ids, it
    gets new ids. It may also be a conversation as Claude Code or Codex keeps it (JSON lines),
    which becomes a session of one agent that is over.
    """
    from prsm_core.cli.sessions.importing import import_session
    from prsm_core.loop.run import run_to_end

    run_to_end(import_session(workspace, file, as_json=as_json))
