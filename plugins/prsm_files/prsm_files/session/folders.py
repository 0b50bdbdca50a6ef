"""Where agents work: in the session's folder, or in its like in a worktree."""

from __future__ import annotations

import os
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from prsm_core.files import Folders, repo_identity
from prsm_core.policies import is_within

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prsm_core.files import AgentRecord, Roster
    from prsm_files.shadow.whereabouts import Where

# The variable with the port on which servers of a worktree may listen.
PORT = "PRSM_PORT"
# One for all agents: each idle one would keep an own.
NO_VARIABLES: Mapping[str, str] = MappingProxyType({})


class Workspaces(Folders):
    """Tells it by where an agent works; `where` is None where there are no worktrees."""

    def __init__(self, workspace: str, where: Where | None) -> None:
        super().__init__(workspace)
        self.where = self._where = where
        self._within: str | None = None  # from the top of the working tree, once it is needed
        self._made_from: dict[str, str] = {}  # the working tree of a worktree, by its top
        self._ports: dict[str, int] = {}  # of worktrees, by their tops

    def of(self, folder: str) -> str:
        """Return the workspace of whoever works in a folder."""
        top = self.top(folder)
        return self.main if top is None else os.path.normpath(f"{top}/{self._below_top()}")

    def top(self, folder: str) -> str | None:
        """Return the top of the worktree that a folder is in; None: it is in none."""
        return None if self._where is None else self._where.top(folder)

    def variables(self, folder: str) -> Mapping[str, str]:
        """Return the variables of whoever works in a folder: the port of its worktree."""
        port = self._ports.get(self.top(folder) or "")
        return NO_VARIABLES if port is None else {PORT: str(port)}

    def note_port(self, top: str, port: int) -> None:
        """Know the port that a worktree has for its servers."""
        self._ports[top] = port

    def home(self, path: str) -> str:
        """Return where a path of a worktree is in the session's own files, itself for any other."""
        top = self.top(path)
        if top is None:
            return path
        return os.path.normpath(f"{self._source(top)}/{os.path.relpath(path, top)}")

    def seen_from(self, path: str, folder: str) -> str:
        """Return a path of the session's folder as an agent in another folder has it."""
        top = self.top(folder)
        if top is None or not is_within(path, source := self._source(top)):
            return path
        return os.path.normpath(f"{top}/{os.path.relpath(path, source)}")

    def _source(self, top: str) -> str:
        """Return the folder of the session's own files that a worktree is a copy of.

        Of one that was made in a repository inside its record says so, as long as there is one.
        """
        found = None if self._where is None else self._where.find(top)
        if self._where is None or found is None:
            return top
        if top not in self._made_from:
            own = repo_identity(Path(self.main))
            source = str(own.root) if found[0] == own.key else _recorded(self._where, *found)
            if source is None:
                return top
            self._made_from[top] = self.home(source)
        return self._made_from[top]

    def own(self, record: AgentRecord, roster: Roster) -> str | None:
        """Return the id of a worktree that an agent has for itself; None: it has none."""
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


def _recorded(where: Where, key: str, tree_id: str) -> str | None:
    from prsm_files.worktrees.records import read  # few are of a repository inside

    tree = read(where, key, tree_id)
    return None if tree is None else tree.parent
