"""`prsm undo` of changes: those of the last turn, or what an id names."""

from __future__ import annotations

import json

import click

from prsm_core.cli.changes.deciding import Which, reject_changes
from prsm_core.cli.changes.knowing import Known, known_changes
from prsm_core.cli.saying import say
from prsm_core.cli.snapshots.opening import with_shadow
from prsm_core.cli.snapshots.restoring import restore_snapshot
from prsm_core.engine.files.deciding import of_last_turn
from prsm_core.errors import ConfigError, StoreError
from prsm_core.loop.run import run_to_end


def undo_changes(
    workspace: str, session: str | None, wanted: str | None, *, is_sure: bool, as_json: bool
) -> int:
    """Take back what an id names, or the last turn's changes without one; return the exit code.

    Raises PrsmError.
    """
    if wanted is None:
        known = run_to_end(_all(workspace, session))
        ids = tuple(row.change.id for row in of_last_turn(known.rows))
        if not ids:
            click.echo(json.dumps({"changes": []})) if as_json else say("nothing is pending")
            return 0
        session = known.session
        which = Which(ids=ids)
    else:
        snapshots = _snapshots(workspace, wanted)
        changes = _changes(workspace, session, wanted)
        if snapshots and changes:
            raise ConfigError(
                f"{wanted!r} is the beginning of a change and of a snapshot",
                hint=f"give more of the id: {', '.join([*changes[:3], *snapshots[:3]])}",
            )
        if not snapshots and not changes:
            raise ConfigError(
                f"there is no change and no snapshot {wanted!r}",
                hint="`prsm changes list` and `prsm snapshot list` show those there are",
            )
        if snapshots:
            return restore_snapshot(
                workspace, wanted, is_sure=is_sure, with_staging=True, as_json=as_json
            )
        which = Which(ids=(wanted,))
    return reject_changes(workspace, session, which, is_sure=is_sure, as_json=as_json)


async def _all(workspace: str, session: str | None) -> Known:
    return await known_changes(workspace, session, (), None, None, is_all=True)


def _changes(workspace: str, session: str | None, wanted: str) -> list[str]:
    try:
        known = run_to_end(_all(workspace, session))
    except StoreError as error:
        if session is not None or error.code not in {"no_ledger", "unknown_session"}:
            raise
        return []
    text = wanted.strip().lower()
    return [row.change.id for row in known.rows if text and row.change.id.startswith(text)]


def _snapshots(workspace: str, wanted: str) -> list[str]:
    text = wanted.strip().lower()
    found = with_shadow(workspace, lambda shadow: shadow.snapshots())
    return [one.id for one in found if text and one.id.startswith(text)]
