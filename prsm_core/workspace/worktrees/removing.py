"""Removes a worktree: its folder, what git keeps of it, its branch, and at last its record.

Each step may have been done already, by a process that has died.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from prsm_core.workspace.worktrees.making import admin

if TYPE_CHECKING:
    from prsm_core.workspace.shadow.root import Root
    from prsm_core.workspace.worktrees.records import Tree


def remove(root: Root, tree: Tree, place: Path) -> None:
    """Remove all of a worktree; `place` is where its record lies. Raises OSError, GitFailedError.

    The branch goes if it is where this worktree left it: one that somebody has moved is theirs.
    """
    folder = Path(tree.folder)
    if folder.exists():
        shutil.rmtree(folder)
    if root.repository is not None:
        known = admin(root, tree)
        if known is not None:
            shutil.rmtree(known)
        _drop_branch(root, tree)
    for name in ("origin", "base", "result"):
        root.shadow.ask("update-ref", "-d", f"{tree.ref}/{name}")
    shutil.rmtree(place)


def _drop_branch(root: Root, tree: Tree) -> None:
    ref = f"refs/heads/{tree.branch}"
    said = root.person.ask("rev-parse", "--quiet", "--verify", ref)
    own = {tree.commit, None if tree.outcome is None else tree.outcome.commit}
    if not said.code and said.out.decode("ascii").strip() in own:
        root.person.run("update-ref", "--no-deref", "-d", ref)
