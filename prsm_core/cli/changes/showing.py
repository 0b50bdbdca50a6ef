"""Prints changes: all that are pending, one, and what they did to lines."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from prsm_core.cli.changes.deciding import finish_cut_off
from prsm_core.cli.changes.knowing import MARKS, known_changes, who
from prsm_core.cli.changes.trees import unmerged
from prsm_core.cli.ledger import open_session
from prsm_core.cli.saying import say
from prsm_core.cli.sessions.listing import at_text
from prsm_core.cli.snapshots.opening import with_shadow
from prsm_core.cli.table import print_table
from prsm_core.domain.changes import OPEN_STATES, UNMERGED
from prsm_core.engine.files.deciding import Choice, choose, told_change
from prsm_core.engine.journal.views import conversation
from prsm_core.kit.text import escape_exact, escape_prose, first_line
from prsm_core.loop.run import run_to_end
from prsm_core.workspace.changes.diffing import patch
from prsm_core.workspace.rationale import LONGEST, find_reason

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prsm_core.domain.changes import ChangeRow
    from prsm_core.workspace.rationale import Reason

_HEADERS = ("CHANGE", "AGENT", "", "FILE", "LINES", "HOW", "STATE", "CALL")


def print_changes(
    workspace: str, session: str | None, agent: str | None, *, is_all: bool, as_json: bool
) -> None:
    """Print changes, by agent, conflicts first. Raises PrsmError."""
    known = run_to_end(known_changes(workspace, session, (), agent, None, is_all=True))
    if known.rows and finish_cut_off(workspace, known.session):
        known = run_to_end(known_changes(workspace, known.session, (), agent, None, is_all=True))
    rows = [row for row in known.rows if is_all or row.state in OPEN_STATES]
    rows.sort(key=lambda row: (not row.change.beside, who(row, known.names)))
    if as_json:
        click.echo(json.dumps([told_change(row, known.names) for row in rows]))
        return
    left = unmerged(workspace, known.session)
    if not rows:
        say("nothing is pending")
        _say_all(left)
        return
    print_table(_HEADERS, [_cells(row, known.names) for row in rows], spare=("CALL", "HOW"))
    _say_all((*summary(rows, known.names), *left))


def _say_all(lines: Sequence[str]) -> None:
    for line in lines:
        say(line, err=True)


def summary(rows: Sequence[ChangeRow], names: Mapping[str, str]) -> Sequence[str]:
    """Return what is pending, in a few lines: conflicts, what is outside, and what to do."""
    pending = [row for row in rows if row.state in OPEN_STATES]
    if not pending:
        return ()
    files = {row.change.path for row in pending}
    lines = [f"pending: changes: {len(pending)}, files: {len(files)}, {_lines_of(pending)}"]
    conflicts = {row.change.path for row in pending if row.change.beside}
    if conflicts:
        lines.append(f"conflicts (!), files that others changed beside: {len(conflicts)}")
    if outside := [row for row in pending if row.change.author is None]:
        lines.append(f"from outside, by a person or another program: {len(outside)}")
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
    known = run_to_end(known_changes(workspace, session, (), None, None, is_all=True))
    rows = [replace(row, state="pending") for row in known.rows]  # whatever is decided
    (found,) = choose(rows, Choice(ids=(wanted,)))
    row = next(one for one in known.rows if one.change.id == found.change.id)
    text = with_shadow(workspace, lambda shadow: patch(shadow, [row.change]))
    reason = run_to_end(_reason(workspace, known.session, row))
    if as_json:
        why = None if reason is None else {"text": reason.text, "seq": reason.seq}
        click.echo(json.dumps({**told_change(row, known.names), "rationale": why, "diff": text}))
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
    """Return why a change was made, by what its agent said before the call."""
    author = row.change.author
    if author is None or not author.call:
        return None
    async with open_session(workspace, session) as (store, _):
        told = store.events(session, agent=author.agent)
        events = [event async for event in told if event.ts <= row.at]
    return find_reason(conversation(events, numbered=True), author.call)


def print_diff(
    workspace: str, session: str | None, ids: Sequence[str], agent: str | None, call: str | None
) -> None:
    """Print changes as patches, in their order. Raises PrsmError."""
    known = run_to_end(known_changes(workspace, session, ids, agent, call))
    changes = [row.change for row in known.rows]
    text = with_shadow(workspace, lambda shadow: patch(shadow, changes)) if changes else ""
    click.echo(text, nl=False)
