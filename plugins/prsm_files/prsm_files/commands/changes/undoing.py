"""`prsm undo` of acts and changes: the last act, those of the last turn, or what an id names."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec import to_builtins

from prsm_core import ConfigError, StoreError
from prsm_core.cli.sessions.listing import at_text
from prsm_core.commands import (
    SessionLock,
    find_owner,
    held,
    open_control,
    open_ledger,
    print_table,
    require_quiet,
    run_to_end,
    say,
    workspace_paths,
)
from prsm_core.files import Ids
from prsm_core.kit import escape_exact, first_line
from prsm_files.changes.acting import Rejecter
from prsm_files.commands.changes.deciding import reject_changes, say_unsure
from prsm_files.commands.changes.knowing import (
    MARKS,
    Which,
    all_changes,
    end_restore,
    open_verdicts,
    settle_all,
)
from prsm_files.commands.snapshots.opening import (
    SHOWN,
    open_shadow,
    require_terminal,
    shown,
    with_shadow,
)
from prsm_files.commands.snapshots.restoring import ask, restore_snapshot, tell
from prsm_files.session.deciding import of_last_turn, told_act, told_decision
from prsm_files.session.going_back import session_after, sessions_of, way_back
from prsm_files.session.taking_back import find_act, told_acted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prsm_core.door import UndoReport
    from prsm_files.changes.acting import UndoPlan
    from prsm_files.shadow.acts import Act, Owed
    from prsm_files.shadow.records import Restored

_HEADERS = ("ACT", "DONE", "KIND", "FILES", "UNDOES", "WHAT")


def undo_turn(
    workspace: str, session: str | None, *, with_possible: bool, is_sure: bool, as_json: bool
) -> int:
    """Take the last turn's changes back; return the exit code. Raises PrsmError."""
    known = run_to_end(all_changes(workspace, session))
    rows = of_last_turn(known.rows, with_possible=with_possible)
    say_unsure(len(of_last_turn(known.rows)) - len(rows))
    ids = tuple(row.change.id for row in rows)
    if not ids:
        told = json.dumps({"changes": [], "act": None})
        click.echo(told) if as_json else say("nothing is pending")
        return 0
    which = Which(ids=ids)
    return reject_changes(workspace, known.session, which, is_sure=is_sure, as_json=as_json)


def undo_wanted(
    workspace: str,
    session: str | None,
    wanted: str | None,
    *,
    conversation: bool,
    is_sure: bool,
    as_json: bool,
) -> int:
    """Take back what an id names, or the last act; return the exit code. Raises PrsmError."""
    act = _act(workspace, session, wanted)
    if act is None and wanted is not None:
        if _snapshots(workspace, wanted):
            return restore_snapshot(
                workspace, wanted, is_sure=is_sure, with_staging=True, as_json=as_json
            )
        which = Which(ids=(wanted,))
        return reject_changes(workspace, session, which, is_sure=is_sure, as_json=as_json)
    if act is None:
        raise RuntimeError("no act is meant")
    if act.is_restore:
        return undo_restore(
            workspace, act, conversation=conversation, is_sure=is_sure, as_json=as_json
        )
    if not is_sure:
        _ask(act, with_shadow(workspace, lambda shadow: Rejecter(shadow).plan_undo(act)))
    return _tell(run_to_end(_undo(workspace, act)), act, as_json=as_json)


def _act(workspace: str, session: str | None, wanted: str | None) -> Act | None:
    """Return the act that is meant; None: a change is, or a snapshot. Raises ConfigError."""
    if wanted is None:
        return with_shadow(workspace, lambda shadow: find_act(shadow, None))
    act = with_shadow(workspace, lambda shadow: shadow.acts.find(wanted))
    acts = [] if act is None else [act.id]
    snapshots = [one for one in _snapshots(workspace, wanted) if one not in acts]
    changes = _changes(workspace, session, wanted)
    if sum(map(bool, (acts, snapshots, changes))) > 1:
        raise ConfigError(
            f"{wanted!r} is the beginning of more than an act, a change or a snapshot",
            hint=f"give more of the id: {', '.join([*acts, *changes[:3], *snapshots[:3]])}",
        )
    if not (acts or snapshots or changes):
        raise ConfigError(
            f"there is no act, no change and no snapshot {wanted!r}",
            hint="`prsm undo --list`, `prsm changes list` and `prsm snapshot list` show them",
        )
    return act


def print_acts(workspace: str, *, as_json: bool) -> None:
    """Print what PRSM did to the files of a folder, newest first. Raises PrsmError."""
    acts = with_shadow(workspace, lambda shadow: list(reversed(shadow.acts.all())))
    if as_json:
        click.echo(json.dumps([told_act(act) for act in acts]))
    elif not acts:
        say("nothing was restored, rejected or merged in this folder")
    else:
        print_table(_HEADERS, list(map(_cells, acts)))


def _cells(act: Act) -> tuple[str | None, ...]:
    files = None if act.is_restore else str(len(act.wrote))
    what = escape_exact(first_line(act.what)) or None
    return act.id, at_text(act.at), act.kind, files, act.undoes, what


async def _undo(workspace: str, act: Act) -> UndoReport:
    """Take an act back that wrote single files: by its session's engine, or without one."""
    state = workspace_paths(workspace).state
    async with held(state, Path(workspace), but=act.session) as writers:
        require_quiet(writers)
        if act.session is not None and find_owner(state, act.session) is not None:
            async with open_control(state, act.session) as client:
                return await client.changes.undo("act", act.id)
        session = await _session_of(workspace, act)
        if session is not None:
            async with open_verdicts(workspace, session) as verdicts:
                acted, made = await verdicts.undo(act)
        else:
            made = ()
            async with open_shadow(workspace) as shadow:
                acted = await asyncio.to_thread(Rejecter(shadow).undo, act)
                await settle_all(workspace, shadow)
        return told_acted(acted, map(told_decision, made))


async def _session_of(workspace: str, act: Act) -> str | None:
    """Return the session of an act; None where it is gone."""
    try:
        return (await all_changes(workspace, act.session)).session if act.session else None
    except StoreError as error:
        if error.code not in {"no_ledger", "unknown_session"}:
            raise
        return None


def _ask(act: Act, plan: UndoPlan) -> None:
    """Ask whether an undo is wanted, with what it writes. Raises ConfigError, click.Abort."""
    require_terminal(f"to undo act {act.id}")
    lines = shown([f"  {MARKS[one.kind]} {escape_exact(one.name)}" for one in plan.operations])
    for line in (*lines, *(f"  = {escape_exact(one.path)} stays: {one.why}" for one in plan.stays)):
        say(line)
    click.confirm(f"undo {act.kind} {act.id}? (prsm undo takes that back)", abort=True, err=True)


def _tell(made: UndoReport, act: Act, *, as_json: bool) -> int:
    if as_json:
        told, names = to_builtins(made), ("act", "files", "changes", "decided", "stays")
        click.echo(json.dumps({"undone": act.id, **{name: told[name] for name in names}}))
    else:
        for changed in made.changes[:SHOWN]:
            say(f"  {escape_exact(changed.path)}")
        again = f"; undo that: prsm undo {made.act}" if made.act else ""
        say(f"undone: {act.kind} {act.id}, files: {made.files}{again}")
    for left in made.stays:
        say(f"prsm: {escape_exact(left.path)} stays: {escape_exact(left.why)}", err=True)
    return int(bool(made.stays))


def _changes(workspace: str, session: str | None, wanted: str) -> list[str]:
    try:
        known = run_to_end(all_changes(workspace, session))
    except StoreError as error:
        if session is not None or error.code not in {"no_ledger", "unknown_session"}:
            raise
        return []
    text = wanted.strip().lower()
    return [row.change.id for row in known.rows if text and row.change.id.startswith(text)]


def _snapshots(workspace: str, wanted: str) -> Sequence[str]:
    text = wanted.strip().lower()
    found = with_shadow(workspace, lambda shadow: shadow.snapshots())
    return [one.id for one in found if text and one.id.startswith(text)]


def undo_restore(
    workspace: str, act: Act, *, conversation: bool, is_sure: bool, as_json: bool
) -> int:
    """Take a restore back, once the person says so; return the exit code. Raises PrsmError."""
    owed = run_to_end(_way_back(workspace, act)) if conversation else None
    if not is_sure:
        ask(with_shadow(workspace, lambda shadow: shadow.plan(act.safety)), _question(owed))
    if (asked := run_to_end(_asked(workspace, act, owed))) is not None:
        return _tell_asked(asked, as_json=as_json)
    restored = run_to_end(_undo_restore(workspace, act, owed))
    return tell(restored, session_after(owed), as_json=as_json, is_of_both=owed is not None)


def _question(owed: Owed | None) -> str:
    if owed is None:
        return "undo the restore"
    session = session_after(owed)
    return "undo the undo of a prompt, and " + (
        "begin anew" if session is None else f"go on with session {session}"
    )


async def _way_back(workspace: str, act: Act) -> Owed | None:
    if act.then is None:
        return None
    async with open_ledger(workspace) as store:
        return await way_back(store, act, Ids(time.time))


async def _asked(workspace: str, act: Act, owed: Owed | None) -> UndoReport | None:
    """Have the engine of one of the sessions do it; None where they have none."""
    state = workspace_paths(workspace).state
    for session in sessions_of(owed):
        if find_owner(state, session) is not None:
            async with open_control(state, session) as client:
                return await client.changes.undo("act", act.id)
    return None


async def _undo_restore(workspace: str, act: Act, owed: Owed | None) -> Restored:
    state = workspace_paths(workspace).state
    async with AsyncExitStack() as stack:
        require_quiet(await stack.enter_async_context(held(state, Path(workspace))))
        mine = sessions_of(owed)
        for session in mine:  # nobody goes on with them
            stack.enter_context(SessionLock.take(state, session, since=time.time()))
        shadow = await stack.enter_async_context(open_shadow(workspace))
        restored = await asyncio.to_thread(partial(shadow.undo, owed, of=act))
        await end_restore(workspace, shadow, owed, mine, "the files are back")
        return restored


def _tell_asked(made: UndoReport, *, as_json: bool) -> int:
    if as_json:
        all_ = to_builtins(made)
        names = ("restored", "session", "changes", "notes", "differs", "act")
        told = {name: all_[name] for name in names}
        click.echo(json.dumps({**told, "safety": made.snapshot, "plan_notes": []}))
    else:
        say(f"files that went back: {made.files}; undo it: prsm undo {made.act}")
        if made.session is not None:
            say(f"the conversation goes on in session {made.session}")
    for note in made.notes:
        say(f"prsm: note: {escape_exact(note)}", err=True)
    return 1 if made.differs else 0
