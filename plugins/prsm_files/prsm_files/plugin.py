"""What this distribution contributes: the keeper of files `git`, and commands on what it keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core import hookimpl
from prsm_core.files import WorkspaceFilesSpec

if TYPE_CHECKING:
    from collections.abc import Iterable


@hookimpl
def prsm_workspace_files() -> Iterable[WorkspaceFilesSpec]:
    """Contribute `git`, which keeps files in repositories of its own."""
    yield WorkspaceFilesSpec(
        name="git",
        summary="Snapshots, changes and worktrees, kept by git beside the person's repository.",
        factory="prsm_files.session.session_files:keep_files",
        care="prsm_files.care:care",
    )
