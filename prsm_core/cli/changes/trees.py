"""Says what of a session's worktrees is not merged; what a dead process left is ended first."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from prsm_core.cli.places import workspace_paths
from prsm_core.cli.snapshots.opening import with_shadow
from prsm_core.domain.changes import path_text
from prsm_core.kit.text import escape_exact
from prsm_core.workspace.identity import repo_identity
from prsm_core.workspace.shadow.whereabouts import Where
from prsm_core.workspace.worktrees.records import BACKING, MERGING, SETTLED, read_all

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prsm_core.workspace.shadow.worktree import Shadow
    from prsm_core.workspace.worktrees.records import Tree

_SHOWN = 5  # conflicts


def unmerged(workspace: str, session: str) -> Sequence[str]:
    """Return what is not merged, a worktree a line. Raises PrsmError."""
    paths = workspace_paths(workspace)
    where, key = Where(paths.state, paths.trees.resolve()), repo_identity(Path(workspace)).key
    if any(tree.state in {MERGING, BACKING} for tree in read_all(where, key)):
        with_shadow(workspace, lambda shadow: _swept(shadow, where))
    return [_line(tree) for tree in read_all(where, key) if _is_left(tree, session)]


def _swept(shadow: Shadow, where: Where) -> Sequence[str]:
    from prsm_core.workspace.worktrees.worktrees import Worktrees  # few were cut off

    return Worktrees(shadow, where).sweep(lambda _: False)


def _is_left(tree: Tree, session: str) -> bool:
    outcome = tree.outcome
    is_over = outcome is not None and outcome.is_over
    return tree.session == session and tree.state == SETTLED and not is_over


def _line(tree: Tree) -> str:
    outcome = tree.outcome
    found = () if outcome is None else outcome.conflicts
    why = "; ".join(f"{path_text(one.path)}: {one.why}" for one in found[:_SHOWN])
    text = f"not merged: {tree.name}, on the branch {tree.branch}, in {path_text(tree.folder)}"
    return escape_exact(f"{text} ({why})" if why else text)
