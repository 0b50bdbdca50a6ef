"""What keeps the files that agents work on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prsm_core.interfaces.records import Registration

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence


STRAYS = "strays"
"""A folder in that of the state. A file in it says that one may lie beside a person's files.

As long as there is one, commands call `FilesCare.sweep` before they begin.
"""


class FilesCare:
    """Takes care, without an engine, of what is kept of a session's files. Nothing is."""

    def sweep(self, _workspace: str) -> None:
        """Remove what an act that was killed has left beside files of a working tree.

        Nothing is told: it was never the person's. Raises PrsmError and OSError.
        """

    def worktrees(self, _session: str) -> Sequence[str]:
        """Return the worktrees that would go with a session, each as a line for people."""
        return ()

    def leave(self, _session: str) -> None:
        """Give up the worktrees of a session that is deleted. Raises PrsmError and OSError."""

    def forget(self, _session: str, _snapshots: Collection[str]) -> int:
        """Remove all else of it, and its snapshots; return how many files went.

        It may have been done already, by a process that has died. Raises PrsmError and OSError.
        """
        return 0

    async def remove_left(self) -> None:
        """Remove the worktrees that were given up. Raises PrsmError; some are left then."""


class WorkspaceFilesSpec(Registration, frozen=True, kw_only=True):
    """Registers what keeps files: snapshots, changes, worktrees, and what weighs claims.

    `factory(paths)` is given where PRSM keeps its own files, and returns what opens the
    `WorkspaceFiles` of an engine by its `FilesContext`; see `prsm_core.files`. `care(paths)`
    returns a `FilesCare`, which commands ask where a session is deleted.
    """

    word = "keeper of files"

    factory: str | Callable[[Any], Any]
    care: str | Callable[[Any], FilesCare] | None = None
