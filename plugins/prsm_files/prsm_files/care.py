"""What is kept of a session's files, removed with it; and its worktrees, told beforehand."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from prsm_core.files import FilesCare, path_text, repo_identity
from prsm_core.kit import escape_exact
from prsm_files.changes.writing import sweep
from prsm_files.commands.snapshots.opening import open_shadow
from prsm_files.session.reading import LeftFiles
from prsm_files.shadow.trackers import forget as forget_changes
from prsm_files.shadow.whereabouts import Where, forget, place_of
from prsm_files.worktrees.making import folders_left, leave, worktrees_of
from prsm_files.worktrees.worktrees import Worktrees

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from prsm_core import Store
    from prsm_core.files import Paths
    from prsm_files.worktrees.records import Tree


def care(paths: Paths) -> FilesCare:
    """Return what takes care of the shadows and worktrees of a person's state."""
    return ShadowCare(paths)


class ShadowCare(FilesCare):
    """Removes what shadows keep of a session, and worktrees of its agents."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._where = Where(paths.state, paths.trees.resolve())

    def sweep(self, workspace: str) -> None:
        """Remove what a killed act has left beside files; git is not needed."""
        sweep(place_of(repo_identity(Path(workspace)), self._where.state))

    def reader(self, store: Store, session: str, workspace: str) -> LeftFiles:
        """Return what reads the files of a session that nobody runs."""
        return LeftFiles(self._paths, store, session, workspace)

    def worktrees(self, session: str) -> Sequence[str]:
        """Return the worktrees that would go with a session, each as a line for people."""
        return [_line(tree) for tree in worktrees_of(self._where, session)]

    def leave(self, session: str) -> None:
        """Give up the worktrees of a session. Raises ConfigError and OSError."""
        leave(self._where, session)

    def forget(self, session: str, snapshots: Collection[str]) -> int:
        """Remove what is kept of a session's changes, and snapshots; git is not needed."""
        count = forget_changes(self._where.state, session)
        forget(self._where.state, snapshots)
        return count

    async def remove_left(self) -> None:
        """Remove the worktrees that were given up, by git."""
        for folder in await asyncio.to_thread(folders_left, self._where):
            async with open_shadow(str(folder)) as shadow:
                await asyncio.to_thread(Worktrees(shadow, self._where).sweep, lambda _: False)


def _line(tree: Tree) -> str:
    state = "its agent has not ended"
    if tree.outcome is not None:
        nowhere = f"merged nowhere, files: {len(tree.outcome.files)}"
        state = "merged, and written to since" if tree.outcome.is_over else nowhere
    text = f"{tree.name}, on the branch {tree.branch}, in {path_text(tree.folder)}"
    return escape_exact(f"{text} ({state})")
