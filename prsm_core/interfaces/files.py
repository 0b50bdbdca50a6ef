"""What keeps the files that agents work on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prsm_core.domain.record import Record
from prsm_core.interfaces.records import check_name

if TYPE_CHECKING:
    from collections.abc import Callable


class WorkspaceFilesSpec(Record, frozen=True, kw_only=True):
    """Registers what keeps files: snapshots, changes, worktrees, and what weighs claims.

    `factory(paths)` is given where PRSM keeps its own files, and returns an `OpenFiles` of
    `prsm_core.files`, which opens the `WorkspaceFiles` of an engine.
    """

    name: str
    summary: str
    factory: str | Callable[[Any], Any]

    def __post_init__(self) -> None:
        """Check the name."""
        check_name("keeper of files", self.name)
