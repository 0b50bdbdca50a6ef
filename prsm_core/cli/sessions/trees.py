"""The worktrees of a session that is to be deleted: what is in them alone is told, and not lost.

A person says so beforehand: nothing that an agent wrote, and that is merged nowhere, goes unasked.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from prsm_core.cli.snapshots.opening import open_shadow
from prsm_core.domain.changes import path_text
from prsm_core.errors import ConfigError
from prsm_core.kit.text import escape_exact
from prsm_core.workspace.worktrees.removing import folders_left, worktrees_of
from prsm_core.workspace.worktrees.worktrees import Worktrees

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prsm_core.workspace.shadow.whereabouts import Where
    from prsm_core.workspace.worktrees.records import Tree

_NAMED = 3  # worktrees that an error names


def told_trees(where: Where, session: str) -> Sequence[str]:
    """Return the worktrees that would go with a session, each as a line for people."""
    return [_line(tree) for tree in worktrees_of(where, session)]


def _line(tree: Tree) -> str:
    outcome = tree.outcome
    if outcome is None:
        state = "its agent has not ended"
    elif outcome.is_over:
        state = "merged, and written to since"
    else:
        state = f"merged nowhere, files: {len(outcome.files)}"
    text = f"{tree.name}, on the branch {tree.branch}, in {path_text(tree.folder)}"
    return escape_exact(f"{text} ({state})")


def require_no_trees(lines: Sequence[str], session: str) -> None:
    """Raise ConfigError where worktrees would go that nobody has said may go."""
    if lines:
        named = "; ".join(lines[:_NAMED]) + ("; …" if len(lines) > _NAMED else "")
        raise ConfigError(
            f"session {session} has worktrees, which hold what is nowhere else: {named}",
            hint="merge their branches, or give --discard-worktrees: they go with it then",
            code="has_worktrees",
        )


async def remove_left(where: Where) -> None:
    """Remove the worktrees that were given up, by git. Raises PrsmError; some are left then."""
    for folder in await asyncio.to_thread(folders_left, where):
        async with open_shadow(str(folder)) as shadow:
            await asyncio.to_thread(Worktrees(shadow, where).sweep, _is_not_lost)


def _is_not_lost(_: Tree) -> bool:
    return False
