"""Prints snapshots: all of a folder, one a line, or one with what differs from it now."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from prsm_core.cli.checkup.folders import format_size
from prsm_core.cli.sessions.listing import at_text
from prsm_core.commands import print_table, say
from prsm_core.kit import escape_exact, first_line
from prsm_files.commands.snapshots.opening import SHOWN, shown, with_shadow

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from prsm_files.shadow.records import Plan, Snapshot

_HEADERS = ("SNAPSHOT", "TAKEN", "KIND", "SESSION", "BRANCH", "HEAD", "LEFT OUT", "DESCRIPTION")
_SPARE = ("HEAD", "LEFT OUT", "BRANCH", "SESSION")
_COMMIT = 12  # characters that name one
_TOLD = (
    *("id", "created_at", "kind", "description", "session", "position", "agent", "unquiet"),
    "folder",
)
_MARKS = {"added": "+", "deleted": "-", "modified": "~", "mode": "%"}
_WORDS = {"added": "come back", "deleted": "go", "modified": "change", "mode": "change permissions"}


def say_taken(snapshot: Snapshot) -> None:
    """Print the id of a snapshot, and what it does not hold."""
    say(f"snapshot {snapshot.id} of {escape_exact(snapshot.folder)}")
    for line in (*_unquiet(snapshot), *_left_out(snapshot)):
        say(line, err=True)
    say(f"go back to it: prsm snapshot restore {snapshot.id}", err=True)


def print_snapshots(workspace: str, *, as_json: bool) -> None:
    """Print all snapshots of a folder, newest first. Raises PrsmError."""
    snapshots = with_shadow(workspace, lambda shadow: shadow.snapshots())
    if as_json:
        click.echo(json.dumps([told(one) for one in snapshots]))
    elif not snapshots:
        say("there is no snapshot of this folder; take one: prsm snapshot create")
    else:
        print_table(_HEADERS, [_cells(one) for one in snapshots], spare=_SPARE)


def print_snapshot(workspace: str, wanted: str, *, as_json: bool) -> None:
    """Print a snapshot, and what a restore of it would change now. Raises PrsmError."""
    plan = with_shadow(workspace, lambda shadow: shadow.plan(wanted))
    snapshot = plan.snapshot
    if as_json:
        click.echo(json.dumps({**told(snapshot), **told_plan(plan)}))
        return
    head = snapshot.main.head
    say(f"snapshot {snapshot.id} ({snapshot.kind}), taken {at_text(snapshot.created_at)}")
    if snapshot.description:
        say(f"  {first_line(snapshot.description)}")
    say(f"  folder: {escape_exact(snapshot.folder)}")
    say(f"  branch: {escape_exact(snapshot.main.branch or '-')}, HEAD: {(head or '-')[:_COMMIT]}")
    if snapshot.session is not None:
        agent = f", for agent {escape_exact(snapshot.agent)}" if snapshot.agent else ""
        say(f"  session: {snapshot.session}, after its commit {snapshot.position or 0}{agent}")
    for line in _unquiet(snapshot):
        say(line)
    if names := ", ".join(escape_exact(root.path) for root in snapshot.roots[1:]):
        say(f"  repositories in it: {names}")
    for line in _left_out(snapshot):
        say(line)
    say_plan(plan)


def told(snapshot: Snapshot) -> Mapping[str, Any]:
    """Return a snapshot as JSON values."""
    return {
        **{name: getattr(snapshot, name) for name in _TOLD},
        **{name: getattr(snapshot.main, name) for name in ("branch", "head", "under_way", "tree")},
        "repositories": [root.path for root in snapshot.roots[1:]],
        "skipped": [
            {"path": one.path, "reason": one.reason, "bytes": one.size} for one in snapshot.skipped
        ],
        **{name: getattr(snapshot, name) for name in ("skipped_count", "bytes_skipped", "notes")},
    }


def told_plan(plan: Plan) -> Mapping[str, Any]:
    """Return what a restore changes as JSON values."""
    changes = [{"path": path, "change": kind} for kind, path in plan.files()]
    return {"changes": changes, "plan_notes": list(plan.notes)}


def say_plan(plan: Plan) -> None:
    """Print what a restore changes, a file a line, and what it does not."""
    files = plan.files()
    if not files:
        say("the files are as in the snapshot")
    lines = [f"  {_MARKS[kind]} {escape_exact(path)}" for kind, path in files]
    for line in shown(lines, "  … {} more (--json names all)"):
        say(line)
    counts = Counter(kind for kind, _ in files)
    if parts := [f"{counts[kind]} {word}" for kind, word in _WORDS.items() if counts[kind]]:
        say(f"a restore: {', '.join(parts)}; files: {len(files)}")
    lines = [f"  = {escape_exact(path)} is yours, and stays" for path in plan.spared]
    for line in shown(lines, "  = … {} more that are yours"):
        say(line)
    for left in plan.stays:
        say(f"  = {escape_exact(left.path)} stays: {escape_exact(left.why)}")
    for note in plan.notes:
        say(f"  note: {escape_exact(note)}")


def _cells(snapshot: Snapshot) -> Sequence[str | None]:
    head = snapshot.main.head
    left = f"{snapshot.skipped_count} ({format_size(snapshot.bytes_skipped)})"
    return (
        snapshot.id,
        at_text(snapshot.created_at),
        f"{snapshot.kind}, unquiet" if snapshot.unquiet else snapshot.kind,
        snapshot.session,
        snapshot.main.branch and escape_exact(snapshot.main.branch),
        head and head[:_COMMIT],
        left if snapshot.skipped_count else None,
        first_line(snapshot.description) or None,
    )


def _unquiet(snapshot: Snapshot) -> Iterator[str]:
    for writer in snapshot.unquiet[:SHOWN]:
        yield f"  unquiet: an agent wrote meanwhile: {escape_exact(writer)}"


def _left_out(snapshot: Snapshot) -> Iterator[str]:
    for one in snapshot.skipped[:SHOWN]:
        size = f" ({format_size(one.size)})" if one.size else ""
        yield f"  left out: {escape_exact(one.path)}{size}: {escape_exact(one.reason)}"
    if snapshot.skipped_count > SHOWN:
        yield f"  left out: {snapshot.skipped_count - SHOWN} more"
    for note in snapshot.notes:
        yield f"  note: {escape_exact(note)}"
