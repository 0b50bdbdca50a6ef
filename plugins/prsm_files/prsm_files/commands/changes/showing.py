"""Prints changes: all that are pending, one, and what they did to lines."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from prsm_core.cli.sessions.listing import at_text
from prsm_core.commands import open_session, print_table, run_to_end, say, workspace_paths
from prsm_core.files import OPEN_STATES, UNMERGED, repo_identity
from prsm_core.kit import escape_exact, escape_prose, first_line, whole_number
from prsm_core.loop.output import write_aside
from prsm_core.terminal import room_in
from prsm_files.changes.tracing import find_origin, patch
from prsm_files.commands.changes.knowing import (
    MARKS,
    Which,
    all_changes,
    finish_cut_off,
    known_changes,
    line_of,
    who,
)
from prsm_files.commands.snapshots.opening import with_shadow
from prsm_files.session.deciding import find_change, is_of_agents, told_change, told_detail
from prsm_files.session.deciding import wanted as in_order
from prsm_files.session.reasons import LONGEST, Reasons, of_line, of_path, told_reason
from prsm_files.shadow.whereabouts import Where
from prsm_files.worktrees.records import BACKING, MERGING, PARTIAL, left_of, read_all, told_left
from prsm_files.worktrees.worktrees import Worktrees

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prsm_core.door import LeftWorktree, Reason
    from prsm_core.files import ChangeRow
    from prsm_files.commands.changes.knowing import Known

_NEWS = frozenset({"file_changed", "changes_decided"})
_HEADERS = ("CHANGE", "AGENT", "", "FILE", "LINES", "HOW", "STATE", "CALL")

_SHOWN = 5  # files that keep one from being merged


def print_changes(
    workspace: str,
    session: str | None,
    agent: str | None,
    *,
    is_all: bool,
    last: int | None = None,
    follow: bool = False,
    as_json: bool,
) -> None:
    """Print changes, by agent, conflicts first, and what comes then. Raises PrsmError."""
    known = run_to_end(all_changes(workspace, session, agent))
    if known.rows and finish_cut_off(workspace, known.session):
        known = run_to_end(all_changes(workspace, known.session, agent))
    rows = [row for row in known.rows if is_all or row.state in OPEN_STATES]
    rows = sorted(rows, key=lambda row: row.at)[-(last or 0) :]
    rows.sort(key=lambda row: (not row.change.beside, who(row, known.names)))
    if as_json and not follow:
        changes = [told_change(row, known.names) for row in rows]
        click.echo(json.dumps(msgspec.to_builtins(changes)))
        return
    if as_json:
        for row in rows:
            click.echo(_json(row, known.names))
    else:
        if rows:
            print_table(_HEADERS, [_cells(row, known.names) for row in rows], spare=("CALL", "HOW"))
        else:
            say("nothing is pending")
        for line in (*summary(rows), *map(_line, _left(workspace, known.session))):
            say(line, err=True)
    if follow:
        run_to_end(_follow(workspace, known, agent, is_all=is_all, as_json=as_json))


async def _follow(
    workspace: str, known: Known, agent: str | None, *, is_all: bool, as_json: bool
) -> None:
    write_aside()
    states = {row.change.id: row.state for row in known.rows}
    async with open_session(workspace, known.session) as (store, _):
        async for event in store.events(known.session, known.last_seq, follow=True):
            if event.type not in _NEWS:
                continue
            now = await all_changes(workspace, known.session, agent)
            for row in now.rows:
                was = states.get(row.change.id)
                is_meant = is_all or was is not None or row.state in OPEN_STATES
                if row.state != was and is_meant:
                    states[row.change.id] = row.state
                    line = f"{line_of(row, now.names)}  {row.state}"
                    click.echo(_json(row, now.names) if as_json else line)
                    await room_in(sys.stdout)


def _json(row: ChangeRow, names: Mapping[str, str]) -> str:
    return json.dumps(msgspec.to_builtins(told_change(row, names)))


def summary(rows: Sequence[ChangeRow]) -> Sequence[str]:
    """Return what is pending, in a few lines: conflicts, what is outside, and what to do."""
    pending = [row for row in rows if row.state in OPEN_STATES]
    if not pending:
        return ()
    files = {row.change.path for row in pending}
    lines = [f"pending: changes: {len(pending)}, files: {len(files)}, {_lines_of(pending)}"]
    conflicts = {row.change.path for row in pending if row.change.beside}
    if conflicts:
        lines.append(f"conflicts (!), files that others changed beside: {len(conflicts)}")
    if outside := [row for row in pending if not is_of_agents(row)]:
        what = "from outside, by a person or another program, and decided by id alone"
        lines.append(f"{what}: {len(outside)}")
    if unsure := [row for row in pending if row.change.is_unsure]:
        lines.append(f"that you may have made (?), for no call explains them: {len(unsure)}")
    if unmerged := [row for row in pending if row.state == UNMERGED]:
        lines.append(f"not taken back, since later edits are in the way: {len(unmerged)}")
    return lines


def _lines_of(rows: Sequence[ChangeRow]) -> str:
    added = sum(row.change.added or 0 for row in rows)
    removed = sum(row.change.removed or 0 for row in rows)
    return f"+{added} -{removed}"


def _cells(row: ChangeRow, names: Mapping[str, str]) -> tuple[str | None, ...]:
    change = row.change
    call = change.author.call if change.author is not None else None
    return (
        change.id,
        escape_exact(who(row, names)),
        "!" if change.beside else "",
        f"{MARKS[change.kind]} {escape_exact(change.path)}",
        None if change.added is None else f"+{change.added} -{change.removed}",
        change.how,
        row.state,
        call and escape_exact(call),
    )


def print_change(workspace: str, session: str | None, wanted: str, *, as_json: bool) -> None:
    """Print one change, decided or not. Raises PrsmError."""
    known = run_to_end(known_changes(workspace, session, Which(ids=(wanted,)), None))
    row = find_change(known.rows, wanted)
    text = with_shadow(workspace, lambda shadow: patch(shadow, [row.change]))
    reason = run_to_end(_reason(workspace, known.session, row))
    if as_json:
        told = told_detail(row, known.names, reason, text)
        click.echo(json.dumps(msgspec.to_builtins(told)))
        return
    change = row.change
    say(f"change {change.id}: {change.kind} {escape_exact(change.path)}, {_lines_of([row])}")
    say(f"  by {escape_exact(who(row, known.names))} ({change.how}), found {at_text(row.at)}")
    for author in change.authors:
        call = escape_exact(author.call) or "a call that has no name"
        say(f"  call {call} of {escape_exact(known.names.get(author.agent, author.agent))}")
    if reason is not None:
        say(f"  why, as it said before: {first_line(reason.text, LONGEST)}")
    for agent in change.beside:
        other = known.names.get(agent, agent) if agent else "a person, or another program"
        say(f"  conflict: {escape_exact(other)} changed the file, too")
    say(f"  {row.state}" + (f": {escape_exact(row.why)}" if row.why else ""))
    if change.note:
        say(f"  its content is not kept: {change.note}")
    click.echo(escape_prose(text), nl=False)


async def _reason(workspace: str, session: str, row: ChangeRow) -> Reason | None:
    async with open_session(workspace, session) as (store, _):
        return await Reasons(store, session).of(row)


def print_why(workspace: str, session: str | None, wanted: str, *, as_json: bool) -> None:
    """Print why a file, or a line of it, was changed. Raises PrsmError."""
    known = run_to_end(all_changes(workspace, session))
    path, line = _place(known.rows, wanted)
    rows = of_path(known.rows, workspace, path)
    row = rows[0]
    if line is not None:
        asked = in_order(rows[::-1])
        origin = with_shadow(workspace, lambda shadow: find_origin(shadow, asked, line))
        row = of_line(rows, origin, line)
    reason = run_to_end(_reason(workspace, known.session, row))
    if as_json:
        click.echo(json.dumps(msgspec.to_builtins(told_reason(row, known.names, reason))))
        return
    change, who_ = row.change, escape_exact(who(row, known.names))
    where = escape_exact(change.path) + ("" if line is None else f":{line}")
    say(f"{where}: {change.kind} by {who_} ({change.how}), change {change.id}, {row.state}")
    if reason is None:
        say("  why is not known: nothing that was said before the call gives a reason")
    else:
        said = "said" if reason.kind == "text" else "thought"
        say(f"  why, as it {said} before: {first_line(reason.text, LONGEST)}")


def _place(rows: Sequence[ChangeRow], wanted: str) -> tuple[str, int | None]:
    """Return the path and the line of PATH[:LINE]; a file may be called so, too."""
    path, _, digits = wanted.rpartition(":")
    number = whole_number(digits)
    if path and number is not None and not any(row.change.path == wanted for row in rows):
        return path, number
    return wanted, None


def print_diff(workspace: str, session: str | None, which: Which, *, as_json: bool) -> None:
    """Print changes as patches, in their order. Raises PrsmError."""
    known = run_to_end(known_changes(workspace, session, which))
    rows = known.rows
    if which == Which():
        rows = tuple(sorted((*rows, *known.outside), key=lambda row: row.at))
    texts: list[str] = []
    if rows:
        texts = with_shadow(workspace, lambda at: [patch(at, [row.change]) for row in rows])
    if as_json:
        changes = msgspec.to_builtins([told_change(row, known.names) for row in rows])
        told = zip(changes, texts, strict=True)
        click.echo(json.dumps([{**change, "diff": text} for change, text in told]))
        return
    click.echo("".join(texts), nl=False)


def print_worktrees(workspace: str, session: str | None, *, as_json: bool) -> None:
    """Print the worktrees that are not merged. Raises PrsmError."""
    known = run_to_end(all_changes(workspace, session))
    left = _left(workspace, known.session)
    if as_json:
        click.echo(json.dumps(msgspec.to_builtins(left)))
        return
    for told in left:
        click.echo(_line(told))
    if not left:
        say("every worktree of the session is merged, or has changed nothing")


def _left(workspace: str, session: str) -> Sequence[LeftWorktree]:
    paths = workspace_paths(workspace)
    where, key = Where(paths.state, paths.trees.resolve()), repo_identity(Path(workspace)).key
    if any(tree.state in {MERGING, BACKING} for tree in read_all(where, key)):
        with_shadow(workspace, lambda shadow: Worktrees(shadow, where).sweep(lambda _: False))
    return [told_left(tree) for tree in left_of(where, key, session)]


def _line(told: LeftWorktree) -> str:
    left = [*told.conflicts, *told.outside]
    why = "; ".join(f"{one.path}: {one.why}" for one in left[:_SHOWN])
    why += f"; and {len(left) - _SHOWN} more" if len(left) > _SHOWN else ""
    how = "merged in part" if told.result == PARTIAL else "not merged"
    text = f"{how}: {told.name}, on the branch {told.branch}, in {told.folder}"
    return escape_exact(f"{text} ({why})" if why else text)
