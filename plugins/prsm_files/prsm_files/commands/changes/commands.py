"""`prsm changes`: what agents changed, accepted or taken back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from prsm_core.commands import (
    agents_may,
    agents_may_unless,
    follow_option,
    json_option,
    last_option,
    workspace_option,
)

session_option = click.option(
    "--session", metavar="ID", help="A session of this folder; the newest if not given."
)
agent_option = click.option(
    "--agent", metavar="NAME", help="Those of an agent, and of all below it."
)
call_option = click.option("--call", metavar="ID", help="Those of one call.")
ids_argument = click.argument("ids", nargs=-1, metavar="[ID]...")
all_option = click.option(
    "--all", "is_all", is_flag=True, help="All that agents of the session made."
)
possible_option = click.option(
    "--possible", is_flag=True, help="Also what you may have made: changes marked with ?."
)
yes_option = click.option("--yes", is_flag=True, help="Do not ask.")

Decorator = Callable[[Any], Any]


def _all_of(*options: Decorator) -> Decorator:
    """Return what gives a command several options, in their order."""

    def add(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return add


place_options = _all_of(session_option, workspace_option, json_option)
which_options = _all_of(ids_argument, agent_option, call_option)


@click.group(
    short_help="Show what agents changed; accept it, or take it back.",
    invoke_without_command=True,
)
@last_option
@follow_option
@click.pass_context
@agents_may
def changes(ctx: click.Context, last: int | None, follow: bool) -> None:
    """Show what the agents of a session changed in the folder, and decide about it.

    Alone it lists what is pending in the newest session, as `prsm changes list` does. `prsm accept`
    and `prsm reject` are for short.

    A change is of one file, found when a call began or ended. HOW says how it is known whose it is:
    `named` (the call's arguments explain it), `shared` (those of several agents do), `sole` (it
    comes from a worktree of its agent's own), `possible` (calls ran that do not explain it, such as
    a command), `region` (the same, in a folder that the agent has for itself) or `outside` (a
    person, or another program). A `?` marks what you may have made: possible, and region. What is
    from outside, or another session's, is decided by its id alone: --all leaves it out. What git
    ignores is not looked at. ID is an id that `prsm changes list` shows, or the beginning of one.
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_changes, last=last, follow=follow)
    elif last is not None or follow:
        command = f"prsm changes {ctx.invoked_subcommand}"
        raise click.UsageError(f"--last and --follow belong behind `{command}`, if it has them")


@changes.command("list", short_help="List what is pending, conflicts first.")
@click.option("--all", "is_all", is_flag=True, help="Also what is accepted or taken back.")
@agent_option
@last_option
@follow_option
@place_options
@agents_may
def list_changes(**given: Any) -> None:
    """List the changes about which nothing is decided, by agent, conflicts first.

    A conflict is a file on which others are, too: it is marked with `!`. The last N are those that
    were found last. With --follow what is found or decided then follows, in a line each, and --json
    prints one change a line.
    """
    from prsm_files.commands.changes.showing import print_changes

    print_changes(**given)


@changes.command(short_help="Show one change: whose it is, and what it did.")
@click.argument("change_id", metavar="ID")
@place_options
@agents_may
def show(change_id: str, session: str | None, workspace: str, as_json: bool) -> None:
    """Show one change: whose it is, how that is known, who else is on the file, and its lines."""
    from prsm_files.commands.changes.showing import print_change

    print_change(workspace, session, change_id, as_json=as_json)


@changes.command(short_help="List worktrees that are not merged.")
@place_options
@agents_may
def worktrees(session: str | None, workspace: str, as_json: bool) -> None:
    """List the worktrees of ended agents that are not merged: their branches, folders, conflicts.

    What is on a branch is merged as git merges any other one.
    """
    from prsm_files.commands.changes.showing import print_worktrees

    print_worktrees(workspace, session, as_json=as_json)


@changes.command(short_help="Show why a file, or a line of it, was changed.")
@click.argument("place", metavar="PATH[:LINE]")
@place_options
@agents_may
def why(place: str, session: str | None, workspace: str, as_json: bool) -> None:
    """Show why a file was changed last, or who made a line of it, and why.

    LINE is the number that the line has now. It is followed back through the changes of the session
    to the one that made it. The reason is what the agent said, or thought, before its call.
    """
    from prsm_files.commands.changes.showing import print_why

    print_why(workspace, session, place, as_json=as_json)


@changes.command(short_help="Print changes as a patch.")
@which_options
@place_options
@agents_may
def diff(session: str | None, workspace: str, as_json: bool, **which: Any) -> None:
    """Print changes as a patch, each for itself: those of the ids, or all that are pending."""
    from prsm_files.commands.changes.knowing import Which
    from prsm_files.commands.changes.showing import print_diff

    print_diff(workspace, session, Which(**which), as_json=as_json)


@changes.command(short_help="Accept changes: they stay, and are pending no more.")
@which_options
@all_option
@place_options
def accept(session: str | None, workspace: str, as_json: bool, **which: Any) -> None:
    """Accept changes: they stay as they are, and are pending no more."""
    from prsm_files.commands.changes.deciding import accept_changes
    from prsm_files.commands.changes.knowing import Which

    accept_changes(workspace, session, Which(**which), as_json=as_json)


@changes.command(short_help="Take changes back, each alone.")
@which_options
@all_option
@possible_option
@yes_option
@place_options
@click.pass_context
def reject(
    ctx: click.Context,
    /,
    possible: bool,
    yes: bool,
    session: str | None,
    workspace: str,
    as_json: bool,
    **given: Any,
) -> None:
    """Take changes back, each alone: what came later in the same file stays.

    What does not merge with later edits stays as it is, and is marked `unmerged`; the exit code is
    1 then. A change that may be of several agents is not among those of one of them; one that you
    may have made (?) is taken back by its id, or with --possible. The agents are told, if they are
    still at work.
    """
    from prsm_files.commands.changes.deciding import reject_changes
    from prsm_files.commands.changes.knowing import Which

    which = Which(**given, is_sure=not possible)
    ctx.exit(reject_changes(workspace, session, which, is_sure=yes, as_json=as_json))


@changes.command(short_help="Commit accepted changes, one commit for each agent or task.")
@ids_argument
@agent_option
@click.option(
    "--by",
    type=click.Choice(["agent", "task"]),
    default="agent",
    show_default=True,
    help="One commit for each agent, or for each task.",
)
@click.option("--message", "-m", metavar="TEXT", help="Says this, in place of their reasons.")
@click.option("--dry-run", is_flag=True, help="Only show what would be committed.")
@yes_option
@place_options
@click.pass_context
@agents_may_unless(lambda given: not given["dry_run"])
def commit(
    ctx: click.Context,
    /,
    by: str,
    message: str | None,
    dry_run: bool,
    yes: bool,
    session: str | None,
    workspace: str,
    as_json: bool,
    **which: Any,
) -> None:
    """Commit changes that are accepted in the repository, as you: the agents', or those named.

    A commit holds these changes alone, merged onto HEAD. What is pending, what you have edited in
    the same files, and what is staged stays as it is; no file is written. What does not merge is
    left out and told, and the exit code is 1 then. What you may have made (?) is in commits of its
    own. The subject is the best reason that the agent
    gave; trailers name agents, providers, models and the session. No hook runs, and nothing is
    signed: `git commit --amend` does both.
    """
    from prsm_files.commands.changes.deciding import commit_changes
    from prsm_files.commands.changes.knowing import Which
    from prsm_files.session.committing import Wording

    what = (workspace, session, Which(**which), Wording(by=by, message=message))
    ctx.exit(commit_changes(*what, is_dry=dry_run, is_sure=yes, as_json=as_json))
