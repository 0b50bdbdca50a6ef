"""Accepts, commits and takes back changes, and acts: by the session's engine, or without one."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec import UNSET, to_builtins
from msgspec.structs import replace

from prsm_core import ConfigError, StoreError
from prsm_core.cli.sessions.listing import at_text
from prsm_core.commands import (
    held,
    install_child_watcher,
    print_table,
    require_quiet,
    run_to_end,
    say,
    workspace_paths,
)
from prsm_core.door import CommitReport
from prsm_core.files import ACCEPTED, UNMERGED
from prsm_core.kit import escape_exact, first_line
from prsm_files.changes.acting import Rejecter
from prsm_files.commands.changes.knowing import (
    MARKS,
    Known,
    Which,
    all_changes,
    known_changes,
    line_of,
    open_verdicts,
    settle_all,
)
from prsm_files.commands.snapshots.opening import (
    SHOWN,
    open_engine,
    open_shadow,
    require_terminal,
    shown,
    with_shadow,
)
from prsm_files.commands.snapshots.restoring import restore_snapshot, undo_restore
from prsm_files.session.committing import Wording, told_outcome
from prsm_files.session.deciding import accepted, of_last_turn, told_act, told_decision
from prsm_files.session.taking_back import find_act, told_acted
from prsm_files.shadow.records import beginning_with

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prsm_core.door import DecidedChange, UndoReport
    from prsm_files.changes.acting import UndoPlan
    from prsm_files.shadow.acts import Act


_NO_HOOKS = "no hook of the repository was run, and nothing is signed"


def accept_changes(workspace: str, session: str | None, which: Which, *, as_json: bool) -> None:
    """Accept changes, and print them. Raises PrsmError."""
    which.check()
    made = run_to_end(_accept(workspace, session, which))
    _tell(made, "accepted", as_json=as_json)


def reject_changes(
    workspace: str, session: str | None, which: Which, *, is_sure: bool, as_json: bool
) -> int:
    """Take changes back once the person says so; return the exit code. Raises PrsmError."""
    which.check()
    install_child_watcher()
    if not is_sure:
        _ask(run_to_end(known_changes(workspace, session, which)))
    known, made = run_to_end(_reject(workspace, session, which))
    _tell(made, "taken back", as_json=as_json)
    say_unsure(len(known.unsure))
    return int(any(one.state == UNMERGED for one in made))


async def _accept(workspace: str, session: str | None, which: Which) -> Sequence[DecidedChange]:
    known = await known_changes(workspace, session, which)
    async with open_engine(workspace, known.session) as engine:
        if engine is not None:
            return await engine.changes.accept(known.ids) if known.ids else []
    async with open_verdicts(workspace, known.session) as verdicts:
        return [told_decision(one) for one in await verdicts.decide(accepted(known.rows))]


async def _reject(
    workspace: str, session: str | None, which: Which
) -> tuple[Known, Sequence[DecidedChange]]:
    known = await known_changes(workspace, session, which)
    state = workspace_paths(workspace).state
    # The session's own engine holds itself.
    async with held(state, Path(workspace), but=known.session) as writers:
        require_quiet(writers)
        async with open_engine(workspace, known.session) as engine:
            if engine is not None:
                return known, await engine.changes.reject(known.ids) if known.ids else []
        async with open_verdicts(workspace, known.session) as verdicts:
            decisions, act = await verdicts.reject(known.choice)
    return known, [told_decision(one, act) for one in decisions]


def _ask(known: Known) -> None:
    if not known.rows:
        return
    count = len(known.rows)
    require_terminal(f"{count} changes are to be taken back")
    lines = shown([f"  {line_of(row, known.names)}" for row in known.rows])
    for line in (*lines, *staying(known)):
        say(line)
    say_unsure(len(known.unsure))
    click.confirm(f"take back {count} changes?", abort=True, err=True)


def staying(known: Known) -> Sequence[str]:
    """Return what stays although all are meant: what no agent of the session made."""
    count = len(known.outside)
    lines = shown([f"  = {line_of(row, known.names)}" for row in known.outside], "  = … {} more")
    what = "from outside, and not taken along (=): give their ids to decide about them"
    return [*lines, f"{what}: {count}"] if count else []


def say_unsure(count: int) -> None:
    """Say how many changes stay that a person may have made, if there are any."""
    if count:
        what = "stay, for you may have made them (?)"
        say(f"prsm: {what}: {count}; --possible takes them back, too", err=True)


def _tell(made: Sequence[DecidedChange], what: str, *, as_json: bool) -> None:
    act = next((one.act for one in made if one.act), None)
    if as_json:
        changes = [replace(one, act=UNSET) for one in made]
        click.echo(json.dumps(to_builtins({"changes": changes, "act": act})))
        return
    done = [one for one in made if one.state != UNMERGED]
    for one in done[:SHOWN]:
        say(f"  {one.change}  {escape_exact(one.path)}")
    say(f"{what}: {len(done)}" + (f"; undo it: prsm undo {act}" if act else ""))
    for one in made:
        if one.state == UNMERGED:
            path, why = escape_exact(one.path), escape_exact(one.why or "")
            say(f"prsm: {one.change} of {path} stays: {why}", err=True)


def commit_changes(
    workspace: str,
    session: str | None,
    which: Which,
    wording: Wording,
    *,
    is_dry: bool,
    is_sure: bool,
    as_json: bool,
) -> int:
    """Commit accepted changes once the person says so; return the exit code. Raises PrsmError."""
    wording.check()
    install_child_watcher()
    if is_dry or not is_sure:
        planned = run_to_end(_commit(workspace, session, which, wording, is_dry=True))
        if is_dry or not (planned.commits or planned.held):
            _tell_commit(planned, as_json=as_json)
            return int(bool(planned.left))
        if planned.commits:
            require_terminal("to commit")
            _print(planned)
            click.confirm(f"make {len(planned.commits)} commits?", abort=True, err=True)
    made = run_to_end(_commit(workspace, session, which, wording, is_dry=False))
    _tell_commit(made, as_json=as_json)
    return int(bool(made.left))


async def _commit(
    workspace: str, session: str | None, which: Which, wording: Wording, *, is_dry: bool
) -> CommitReport:
    known = await known_changes(workspace, session, which, states={ACCEPTED})
    by, message = wording.by, wording.message
    async with open_engine(workspace, known.session) as engine:
        if engine is not None and not known.ids:
            return CommitReport()
        if engine is not None:
            return await engine.changes.commit(known.ids, by=by, message=message, dry_run=is_dry)
    async with open_verdicts(workspace, known.session, may_write=not is_dry) as verdicts:
        commit = verdicts.plan_commits if is_dry else verdicts.commit
        outcome, rows = await commit(known.choice, wording)
    return told_outcome(outcome, rows, known.names)


def _tell_commit(told: CommitReport, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(to_builtins(told)))
        return
    _print(told)
    if not told.commits:
        say("nothing is committed: no change that is accepted is left to commit")
    elif told.commits[0].commit is not None:
        say(f"prsm: note: {_NO_HOOKS}", err=True)


def _print(told: CommitReport) -> None:
    for one in told.commits:
        id_ = "would commit" if one.commit is None else one.commit[:12]
        where = f" in {escape_exact(one.repository)}" if one.repository else ""
        mark = "?" if one.possible else ""
        names = ", ".join(f"{escape_exact(who.name or '')}{mark}" for who in one.agents)
        say(f"{id_}{where}  {escape_exact(one.subject)}  ({names or 'outside'})")
        for path in one.files:
            say(f"  {escape_exact(path)}")
    for change in told.held:
        say(f"{change.change} of {escape_exact(change.path)}: HEAD has it already")
    for left in told.left:
        path, why = escape_exact(left.path), escape_exact(left.why)
        say(f"prsm: {left.change} of {path} is left out: {why}", err=True)


_HEADERS = ("ACT", "DONE", "KIND", "FILES", "UNDOES", "WHAT")


def undo_turn(
    workspace: str, session: str | None, *, with_possible: bool, is_sure: bool, as_json: bool
) -> int:
    """Take the last turn's changes back; return the exit code. Raises PrsmError."""
    known = run_to_end(all_changes(workspace, session))
    rows = of_last_turn(known.rows, with_possible=with_possible)
    say_unsure(len(of_last_turn(known.rows)) - len(rows))
    if rows:
        which = Which(ids=tuple(row.change.id for row in rows))
        return reject_changes(workspace, known.session, which, is_sure=is_sure, as_json=as_json)
    told = json.dumps({"changes": [], "act": None})
    click.echo(told) if as_json else say("nothing is pending")
    return 0


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
    asking = {"is_sure": is_sure, "as_json": as_json}
    if act is None and wanted is not None and _snapshots(workspace, wanted):
        return restore_snapshot(workspace, wanted, with_staging=True, **asking)
    if act is None:
        return reject_changes(workspace, session, Which(ids=(wanted or "",)), **asking)
    if act.is_restore:
        return undo_restore(workspace, act, conversation=conversation, **asking)
    if not is_sure:
        _ask_undo(act, with_shadow(workspace, lambda shadow: Rejecter(shadow).plan_undo(act)))
    return _tell_undone(run_to_end(_undo(workspace, act)), act, as_json=as_json)


def _act(workspace: str, session: str | None, wanted: str | None) -> Act | None:
    """Return the act that is meant; None: a change is, or a snapshot. Raises ConfigError."""
    if wanted is None:
        return with_shadow(workspace, lambda shadow: find_act(shadow, None))
    act = with_shadow(workspace, lambda shadow: shadow.acts.find(wanted))
    acts = [] if act is None else [act.id]
    snapshots = [one for one in _snapshots(workspace, wanted) if one not in acts]
    changes = _changes(workspace, session, wanted)
    kinds = [ids for ids in (acts, changes[:3], snapshots[:3]) if ids]
    if len(kinds) > 1:
        raise ConfigError(
            f"{wanted!r} is the beginning of more than an act, a change or a snapshot",
            hint=f"give more of the id: {', '.join(id_ for ids in kinds for id_ in ids)}",
        )
    if not kinds:
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
    state = workspace_paths(workspace).state
    async with held(state, Path(workspace), but=act.session) as writers:
        require_quiet(writers)
        if act.session is not None:
            async with open_engine(workspace, act.session) as engine:
                if engine is not None:
                    return await engine.changes.undo("act", act.id)
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
    try:
        return (await all_changes(workspace, act.session)).session if act.session else None
    except StoreError as error:
        if error.code not in {"no_ledger", "unknown_session"}:
            raise
        return None


def _ask_undo(act: Act, plan: UndoPlan) -> None:
    require_terminal(f"to undo act {act.id}")
    for line in shown([f"  {MARKS[one.kind]} {escape_exact(one.name)}" for one in plan.operations]):
        say(line)
    for left in plan.stays:
        say(f"  = {escape_exact(left.path)} stays: {left.why}")
    click.confirm(f"undo {act.kind} {act.id}? (prsm undo takes that back)", abort=True, err=True)


def _tell_undone(made: UndoReport, act: Act, *, as_json: bool) -> int:
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
    return beginning_with(wanted, known.ids)


def _snapshots(workspace: str, wanted: str) -> list[str]:
    found = with_shadow(workspace, lambda shadow: shadow.snapshots())
    return beginning_with(wanted, [one.id for one in found])
