"""Where agents work: in the session's folder, or in its like in a worktree."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from prsm_core.workspace.identity import repo_identity

if TYPE_CHECKING:
    from prsm_core.engine.state import AgentRecord, Roster
    from prsm_core.workspace.shadow.whereabouts import Where


class Workspaces:
    """Tells it by where an agent works; `where` is None where there are no worktrees."""

    def __init__(self, workspace: str, where: Where | None) -> None:
        self.main = workspace
        self.where = self._where = where
        self._within: str | None = None  # from the top of the working tree, once it is needed

    def of(self, folder: str) -> str:
        """Return the workspace of whoever works in a folder."""
        top = self.top(folder)
        return self.main if top is None else os.path.normpath(f"{top}/{self._below_top()}")

    def top(self, folder: str) -> str | None:
        """Return the top of the worktree that a folder is in; None: it is in none."""
        return None if self._where is None else self._where.top(folder)

    def own(self, record: AgentRecord, roster: Roster) -> str | None:
        """Return the id of a worktree that an agent has for itself; None: it has none.

        Who is spawned without one works where its parent does.
        """
        parent = roster.parent_of(record)
        if self._where is None or parent is None:
            return None
        found = self._where.find(record.descriptor.cwd)
        is_own = found is not None and found != self._where.find(parent.descriptor.cwd)
        return found[1] if found is not None and is_own else None

    def _below_top(self) -> str:
        if self._within is None:
            workspace = Path(self.main).resolve()
            self._within = os.path.relpath(workspace, repo_identity(workspace).root)
        return self._within
