"""Restores a snapshot: its plan first, then the question, then what was done."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from prsm_core.commands import (
    held,
    install_child_watcher,
    require_quiet,
    run_to_end,
    say,
    workspace_paths,
)
from prsm_core.kit import escape_exact
from prsm_files.commands.changes.knowing import settle_all
from prsm_files.commands.snapshots.opening import SHOWN, open_shadow, require_terminal, with_shadow
from prsm_files.commands.snapshots.showing import say_plan, told_plan

if TYPE_CHECKING:
    from prsm_files.shadow.records import Plan, Restored


def restore_snapshot(
    workspace: str, wanted: str, *, is_sure: bool, with_staging: bool, as_json: bool
) -> int:
    """Restore a snapshot, once the person says so; return the exit code. Raises PrsmError."""
    if not is_sure:
        plan = with_shadow(workspace, lambda shadow: shadow.plan(wanted))
        wanted = plan.snapshot.id
        ask(plan, f"restore snapshot {wanted}")

    install_child_watcher()
    return tell(run_to_end(_restore(workspace, wanted, with_staging)), as_json=as_json)


async def _restore(workspace: str, wanted: str, with_staging: bool) -> Restored:
    async with held(workspace_paths(workspace).state, Path(workspace)) as writers:
        require_quiet(writers)
        async with open_shadow(workspace) as shadow:
            restore = partial(shadow.restore, wanted, with_staging=with_staging)
            restored: Restored = await asyncio.to_thread(restore)
            await settle_all(workspace, shadow)
            return restored


def delete_snapshot(workspace: str, wanted: str, *, is_sure: bool, as_json: bool) -> None:
    """Delete a snapshot, once the person says so. Raises PrsmError."""
    snapshot = with_shadow(workspace, lambda shadow: shadow.find(wanted))
    if not is_sure:
        require_terminal(f"snapshot {snapshot.id} is to be deleted")
        click.confirm(f"delete snapshot {snapshot.id} for good?", abort=True, err=True)
    deleted = with_shadow(workspace, lambda shadow: shadow.delete(snapshot.id))
    if as_json:
        click.echo(json.dumps({"deleted": deleted.id}))
    else:
        say(f"deleted snapshot {deleted.id}")


def pack_snapshots(workspace: str, *, as_json: bool) -> None:
    """Copy all that snapshots need out of the repository. Raises PrsmError."""
    with_shadow(workspace, lambda shadow: shadow.pack())
    if as_json:
        click.echo(json.dumps({"packed": True}))
    else:
        say("the snapshots of this folder need nothing of its repository any more")


def ask(plan: Plan, what: str) -> None:
    """Ask whether a restore is wanted, with what it changes. Raises ConfigError, click.Abort."""
    require_terminal(f"{what!r} is what you want")
    say_plan(plan)
    click.confirm(f"{what}? (prsm undo takes it back)", abort=True, err=True)


def tell(
    restored: Restored, session: str | None = None, *, as_json: bool, is_of_both: bool = False
) -> int:
    """Say what was restored, and where the conversation goes on; return the exit code."""
    plan = restored.plan
    if as_json:
        told = {
            "restored": plan.snapshot.id,
            "safety": restored.safety.id,
            "act": restored.safety.id,
            "session": session,
            **told_plan(plan),
            "notes": list(restored.notes),
            "differs": list(restored.differs),
        }
        click.echo(json.dumps(told))
    else:
        say_plan(plan)
        say(f"restored {plan.snapshot.id}; take it back: prsm undo {restored.safety.id}")
        if session is not None:
            say(f"the conversation goes on in session {session}")
        elif is_of_both:
            say('the conversation was taken back, too: prsm, or prsm run "…", begins anew')
    for note in restored.notes:
        say(f"prsm: note: {escape_exact(note)}", err=True)
    for path in restored.differs[:SHOWN]:
        say(f"prsm: {escape_exact(path)} was changed by another program meanwhile", err=True)
    return 1 if restored.differs else 0
