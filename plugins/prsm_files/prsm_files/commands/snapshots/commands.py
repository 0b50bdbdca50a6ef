"""`prsm snapshot`: the files of a folder as they were, and back to them."""

from __future__ import annotations

import click

from prsm_core.commands import agents_may, is_utf8, json_option, workspace_option

yes_option = click.option("--yes", is_flag=True, help="Do not ask.")


def _as_text(_ctx: click.Context, _param: click.Parameter, value: str) -> str:
    if not is_utf8(value):
        raise click.BadParameter("it is not UTF-8 text")
    return value


@click.group(short_help="Keep the files of a folder as they are, and go back.")
def snapshot() -> None:
    """Keep the files of this folder as they are, and go back to them.

    A snapshot holds all files that git does not ignore, committed or not, and what is staged; in a
    repository those of all of it. It lies in PRSM's own folder: nothing in the repository changes.
    ID is an id that `prsm snapshot list` shows, or the beginning of one.
    """


@snapshot.command(short_help="Take a snapshot.")
@click.option(
    "-m", "--description", default="", metavar="TEXT", callback=_as_text, help="What it is."
)
@workspace_option
@json_option
def create(description: str, workspace: str, as_json: bool) -> None:
    """Take a snapshot of the files of this folder, and print its id.

    Files over 100 MiB that are new or changed, pipes and sockets are left out, and named. The
    newest session of this folder, if there is one, tells of it by an event.
    """
    from prsm_files.commands.snapshots.creating import create_snapshot

    create_snapshot(workspace, description, as_json=as_json)


@snapshot.command("list", short_help="List the snapshots, newest first.")
@workspace_option
@json_option
@agents_may
def list_snapshots(workspace: str, as_json: bool) -> None:
    """List the snapshots of this folder, newest first.

    `safety` ones were taken before a restore, and only the newest twenty of them are kept.
    """
    from prsm_files.commands.snapshots.showing import print_snapshots

    print_snapshots(workspace, as_json=as_json)


@snapshot.command(short_help="Show a snapshot, and what differs now.")
@click.argument("snapshot_id", metavar="ID")
@workspace_option
@json_option
@agents_may
def show(snapshot_id: str, workspace: str, as_json: bool) -> None:
    """Show a snapshot, and which files a restore of it would change now."""
    from prsm_files.commands.snapshots.showing import print_snapshot

    print_snapshot(workspace, snapshot_id, as_json=as_json)


@snapshot.command(short_help="Go back to a snapshot.")
@click.argument("snapshot_id", metavar="ID")
@yes_option
@click.option("--files-only", is_flag=True, help="Leave the staging area as it is.")
@workspace_option
@json_option
@click.pass_context
def restore(
    ctx: click.Context,
    snapshot_id: str,
    yes: bool,
    files_only: bool,
    workspace: str,
    as_json: bool,
) -> None:
    """Let the files be as they were when a snapshot was taken.

    A snapshot of what there is now is taken first, and `prsm undo` goes back to it. Only files that
    differ are written. HEAD, branches, stashes and ignored files stay as they are; what is staged
    comes back if HEAD is the same as it was then.
    """
    from prsm_files.commands.snapshots.restoring import restore_snapshot

    code = restore_snapshot(
        workspace, snapshot_id, is_sure=yes, with_staging=not files_only, as_json=as_json
    )
    ctx.exit(code)


@snapshot.command(short_help="Delete a snapshot.")
@click.argument("snapshot_id", metavar="ID")
@yes_option
@workspace_option
@json_option
def delete(snapshot_id: str, yes: bool, workspace: str, as_json: bool) -> None:
    """Delete a snapshot, and all that no other one needs. The files stay as they are."""
    from prsm_files.commands.snapshots.restoring import delete_snapshot

    delete_snapshot(workspace, snapshot_id, is_sure=yes, as_json=as_json)


@snapshot.command(short_help="Copy what snapshots need out of the repository.")
@workspace_option
@json_option
def pack(workspace: str, as_json: bool) -> None:
    """Copy all that snapshots need out of the repository.

    What was committed when a snapshot was taken is not copied, but read from the repository. Once
    history was rewritten, the next snapshot copies what else `git gc` would remove one day. If it
    is removed at once, by `git gc --prune=now`, such a snapshot is lost; after this command it is
    not.
    """
    from prsm_files.commands.snapshots.restoring import pack_snapshots

    pack_snapshots(workspace, as_json=as_json)


@snapshot.command("export", short_help="Write a snapshot as a folder.")
@click.argument("snapshot_id", metavar="ID")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=str))
@workspace_option
@json_option
@agents_may
def export_(snapshot_id: str, folder: str, workspace: str, as_json: bool) -> None:
    """Write a snapshot as the new folder DIR, which `prsm snapshot import` takes in.

    `meta.json` says what it is, `working_tree.patch` leads from the commit to the tracked files,
    `untracked` has the others, `staged.patch` leads to what is staged. Of the session that it was
    taken for there are `session.json`, as `prsm export` writes it, and `file-changes`, by call.
    """
    from prsm_files.commands.snapshots.creating import export_snapshot

    export_snapshot(workspace, snapshot_id, folder, as_json=as_json)


@snapshot.command("import", short_help="Take in a snapshot that was written as a folder.")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=str))
@click.option("--links", is_flag=True, help="Take in links that lead out of the folder, too.")
@workspace_option
@json_option
def import_(folder: str, links: bool, workspace: str, as_json: bool) -> None:
    """Take in the snapshot that was written as the folder DIR, and print its id.

    No file is changed: `prsm snapshot restore` goes to it. The commit that it was made from must
    be in this repository. `session.json` is not read: `prsm sessions import` takes it in.
    """
    from prsm_files.commands.snapshots.creating import import_snapshot

    import_snapshot(workspace, folder, with_links=links, as_json=as_json)
