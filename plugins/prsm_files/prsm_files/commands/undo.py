"""`prsm undo`: takes back what PRSM did to files, a prompt, or the changes of a turn."""

from __future__ import annotations

import click

from prsm_core.commands import agents_may_unless, json_option, workspace_option


@click.command(short_help="Take back the last act, a prompt, a turn, or what an ID names.")
@click.argument("wanted", metavar="[ID]", required=False)
@click.option(
    "--prompt",
    is_flag=False,
    flag_value="1",
    metavar="[N|SNAPSHOT]",
    help="A prompt of yours and all that came of it: files and conversation. 1, or none, is the "
    "newest, 2 the one before it; or the snapshot that was taken before it.",
)
@click.option("--turn", is_flag=True, help="The pending changes of the turn that changed last.")
@click.option(
    "--possible", is_flag=True, help="Of --turn: also what you may have made, marked with ?."
)
@click.option("--list", "lists", is_flag=True, help="List what can be undone, newest first.")
@click.option("--keep-files", is_flag=True, help="Of a prompt: only the conversation goes back.")
@click.option("--files-only", is_flag=True, help="Only the files go back, and no conversation.")
@click.option("--mine", is_flag=True, help="Of a prompt: what is known to be yours goes back, too.")
@click.option("--session", metavar="ID", help="A session of this folder; the newest if not given.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@workspace_option
@json_option
@click.pass_context
@agents_may_unless(lambda given: not given["lists"])
def undo(
    ctx: click.Context,
    wanted: str | None,
    prompt: str | None,
    turn: bool,
    lists: bool,
    possible: bool,
    keep_files: bool,
    files_only: bool,
    mine: bool,
    session: str | None,
    yes: bool,
    workspace: str,
    as_json: bool,
) -> None:
    """Take back what PRSM did last to the files of this folder, or what an option or ID says.

    Whatever writes files is an act: a rejection, a merge, a restore, an undo. It keeps what it
    writes over, and prints its id. ID is that of an act, which is undone; of a change, which is
    rejected; or of a snapshot, which is restored. A second `prsm undo` undoes the first. That of a
    rejection or a merge writes only its files. What was edited since is merged, or stays, is named,
    and the exit code is 1. Rejected changes are pending again.

    With --prompt the files and what is staged are as they were before the prompt, and the newest
    session is one that begins as the conversation was then: it is gone on with. What is known to be
    yours stays as it is, unless you say --mine. Before the first prompt of a session there was no
    conversation: then the next run begins anew. The session of the prompt stays as it is; a second
    `prsm undo` brings it back with the files. While its run is open, nothing is taken back.
    """
    _check_options(**ctx.params)
    asking = {"is_sure": yes, "as_json": as_json}
    if prompt is not None:
        from prsm_files.commands.snapshots.restoring import Undoing, undo_prompt

        what = {"files": not keep_files, "conversation": not files_only, "mine": mine}
        request = Undoing(workspace=workspace, session=session, wanted=prompt, **what, **asking)
        ctx.exit(undo_prompt(request))

    from prsm_files.commands.changes import deciding

    if lists:
        deciding.print_acts(workspace, as_json=as_json)
    elif turn:
        ctx.exit(deciding.undo_turn(workspace, session, with_possible=possible, **asking))
    else:
        goes = not files_only
        ctx.exit(deciding.undo_wanted(workspace, session, wanted, conversation=goes, **asking))


def _check_options(
    *,
    wanted: str | None,
    prompt: str | None,
    turn: bool,
    lists: bool,
    possible: bool,
    keep_files: bool,
    files_only: bool,
    mine: bool,
    session: str | None,
    **_: object,
) -> None:
    is_prompt = prompt is not None
    ways = {"ID": wanted is not None, "--prompt": is_prompt, "--turn": turn, "--list": lists}
    for is_wrong, why in (
        (sum(ways.values()) > 1, f"give one of {', '.join(ways)}"),
        (keep_files and files_only, "--keep-files and --files-only leave nothing to take back"),
        (keep_files and not is_prompt, "--keep-files is of --prompt"),
        (files_only and (turn or lists), "--files-only is of --prompt, and of a restore"),
        (
            session is not None and (lists or not any(ways.values())),
            "--session is of ID, --prompt and --turn",
        ),
        (mine and (not is_prompt or keep_files), "--mine is of the files of --prompt"),
        (possible and not turn, "--possible is of --turn"),
    ):
        if is_wrong:
            raise click.UsageError(why)
