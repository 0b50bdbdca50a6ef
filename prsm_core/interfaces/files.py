"""What keeps the files that agents work on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from prsm_core.interfaces.records import Registration

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from prsm_core.door import Change, ChangeDetail, LeftWorktree, Rationale
    from prsm_core.interfaces.store import Store


STRAYS = "strays"
"""A folder in that of the state. A file in it says that one may lie beside a person's files.

As long as there is one, commands call `FilesCare.sweep` before they begin.
"""


class FilesReader(ABC):
    """Tells what is known of a session's files without an engine, as `Changes` does; changes none.

    Each raises as that does, and ConfigError while an act that was cut off is not finished.
    """

    @abstractmethod
    async def list(self) -> Sequence[Change]:
        """Return all changes of files that the session has found, oldest first."""

    @abstractmethod
    async def show(self, change: str) -> ChangeDetail:
        """Return a change by its id or the beginning of one."""

    @abstractmethod
    async def rationale(self, path: str, line: int | None = None) -> Rationale:
        """Return why an agent changed a file, or a line of it."""

    @abstractmethod
    async def worktrees(self) -> Sequence[LeftWorktree]:
        """Return the worktrees of agents that have ended and are not merged."""


class FilesCare:
    """Takes care of a session's kept files without an engine. By default nothing is kept."""

    def sweep(self, _workspace: str) -> None:
        """Remove what a killed act left beside files. Raises PrsmError and OSError."""

    def reader(self, _store: Store, _session: str, _workspace: str) -> FilesReader | None:
        """Return what reads the files of a session; None: nothing can be read."""
        return None

    def worktrees(self, _session: str) -> Sequence[str]:
        """Return the worktrees that would go with a session, each as a line for people."""
        return ()

    def leave(self, _session: str) -> None:
        """Give up a deleted session's worktrees. Raises PrsmError and OSError."""

    def forget(self, _session: str, _snapshots: Collection[str]) -> int:
        """Remove all else of it and its snapshots; return how many files went.

        A process that has died may have done it already. Raises PrsmError and OSError.
        """
        return 0

    async def remove_left(self) -> None:
        """Remove the worktrees that were given up. Raises PrsmError; some are left then."""


class WorkspaceFilesSpec(Registration, frozen=True, kw_only=True):
    """Registers what keeps files: snapshots, changes, worktrees, and what weighs claims.

    `factory(paths)` gets the paths of PRSM's own files and returns what opens an engine's
    `WorkspaceFiles`; see `prsm_core.files`. `care(paths)` returns a `FilesCare`, which is asked
    where a session has no engine.
    """

    word = "keeper of files"

    factory: str | Callable[[Any], Any]
    care: str | Callable[[Any], FilesCare] | None = None
