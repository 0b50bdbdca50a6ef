"""Says what of a session's worktrees is not merged; what a dead process left is ended first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from prsm_core.commands import run_to_end, say, workspace_paths
from prsm_core.files import repo_identity
from prsm_core.kit import escape_exact
from prsm_files.commands.changes.knowing import known_changes
from prsm_files.commands.snapshots.opening import with_shadow
from prsm_files.shadow.whereabouts import Where
from prsm_files.worktrees.records import (
    BACKING,
    MERGING,
    PARTIAL,
    left_of,
    read_all,
    told_left,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prsm_files.shadow.worktree import Shadow

_SHOWN = 5  # files that keep one from being merged


def unmerged(workspace: str, session: str) -> Sequence[str]:
    """Return what is not merged, a worktree a line. Raises PrsmError."""
    return [_line(told) for told in _left(workspace, session)]


def print_worktrees(workspace: str, session: str | None, *, as_json: bool) -> None:
    """Print the worktrees that are not merged. Raises PrsmError."""
    known = run_to_end(known_changes(workspace, session, (), None, None, is_all=True))
    left = _left(workspace, known.session)
    if as_json:
        click.echo(json.dumps(left))
        return
    for told in left:
        click.echo(_line(told))
    if not left:
        say("every worktree of the session is merged, or has changed nothing")


def _left(workspace: str, session: str) -> Sequence[Mapping[str, Any]]:
    paths = workspace_paths(workspace)
    where, key = Where(paths.state, paths.trees.resolve()), repo_identity(Path(workspace)).key
    if any(tree.state in {MERGING, BACKING} for tree in read_all(where, key)):
        with_shadow(workspace, lambda shadow: _swept(shadow, where))
    return [told_left(tree) for tree in left_of(where, key, session)]


def _swept(shadow: Shadow, where: Where) -> Sequence[str]:
    from prsm_files.worktrees.worktrees import Worktrees  # few were cut off

    return Worktrees(shadow, where).sweep(lambda _: False)


def _line(told: Mapping[str, Any]) -> str:
    left = [*told["conflicts"], *told["outside"]]
    why = "; ".join(f"{one['path']}: {one['why']}" for one in left[:_SHOWN])
    why += f"; and {len(left) - _SHOWN} more" if len(left) > _SHOWN else ""
    how = "merged in part" if told["result"] == PARTIAL else "not merged"
    text = f"{how}: {told['name']}, on the branch {told['branch']}, in {told['folder']}"
    return escape_exact(f"{text} ({why})" if why else text)
