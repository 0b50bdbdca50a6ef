"""`prsm undo`: takes back a restore, a prompt, the changes of a turn, or what an id names."""

from __future__ import annotations

import click

from prsm_core.cli.options import json_option, workspace_option


@click.command(short_help="Take back a restore, a prompt, a turn's changes, or one change.")
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
@click.option("--keep-files", is_flag=True, help="Of a prompt: only the conversation goes back.")
@click.option("--files-only", is_flag=True, help="Only the files go back, and no conversation.")
@click.option("--session", metavar="ID", help="A session of this folder; the newest if not given.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@workspace_option
@json_option
@click.pass_context
def undo(
    ctx: click.Context,
    wanted: str | None,
    prompt: str | None,
    turn: bool,
    keep_files: bool,
    files_only: bool,
    session: str | None,
    yes: bool,
    workspace: str,
    as_json: bool,
) -> None:
    """Take back the last restore of a snapshot in this folder, or what an option or ID says.

    ID is that of a change, which is rejected, or of a snapshot, which is restored. What there is
    now is kept as well: a second `prsm undo` goes back to it.

    With --prompt the files and what is staged are as they were before the prompt, and the newest
    session is one that begins as the conversation was then: it is gone on with. Before the first
    prompt of a session there was none: then the next run begins anew. The session of the prompt
    stays as it is; a second `prsm undo` brings it back with the files. While its run is open,
    nothing is taken back.
    """
    _check(wanted, prompt, session, turn=turn, keep_files=keep_files, files_only=files_only)
    if prompt is not None:
        from prsm_core.cli.snapshots.undoing import Undoing, undo_prompt

        request = Undoing(
            workspace=workspace,
            session=session,
            wanted=prompt,
            files=not keep_files,
            conversation=not files_only,
            is_sure=yes,
            as_json=as_json,
        )
        ctx.exit(undo_prompt(request))
    if turn or wanted is not None:
        from prsm_core.cli.changes.undoing import undo_changes

        ctx.exit(undo_changes(workspace, session, wanted, is_sure=yes, as_json=as_json))
    from prsm_core.cli.snapshots.undone import undo_restore

    conversation = not files_only
    ctx.exit(undo_restore(workspace, conversation=conversation, is_sure=yes, as_json=as_json))


def _check(
    wanted: str | None,
    prompt: str | None,
    session: str | None,
    *,
    turn: bool,
    keep_files: bool,
    files_only: bool,
) -> None:
    """Raise UsageError for options that do not go together."""
    ways = [wanted is not None, prompt is not None, turn]
    if sum(ways) > 1:
        raise click.UsageError("give one of ID, --prompt and --turn")
    if keep_files and files_only:
        raise click.UsageError("--keep-files and --files-only leave nothing to take back")
    if keep_files and prompt is None:
        raise click.UsageError("--keep-files is of --prompt")
    if files_only and (turn or wanted is not None):
        raise click.UsageError("--files-only is of --prompt, and of the last restore")
    if session is not None and not any(ways):
        raise click.UsageError("--session is of ID, --prompt and --turn")
