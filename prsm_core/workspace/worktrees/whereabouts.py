"""Where worktrees lie, and what is known of them; git is not run."""

from __future__ import annotations

import os
from pathlib import Path

from prsm_core.domain.record import Record

RECORD = "record.json"


class Where(Record, frozen=True):
    """The folders of all worktrees.

    Attributes:
        state: PRSM's folder of state, which agents do not see: what is known of each lies there.
        trees: The folder of the worktrees themselves, which agents work in; resolved.
    """

    state: Path
    trees: Path

    def repository(self, key: str) -> Path:
        """Return the folder of what is known of a repository's worktrees, by its `key`."""
        return self.state / "worktrees" / key

    def place(self, key: str, tree_id: str) -> Path:
        """Return the folder of what is known of one worktree."""
        return self.repository(key) / tree_id

    def find(self, folder: str) -> tuple[str, str] | None:
        """Return repository and id of the worktree that a folder is in; None: it is in none."""
        try:
            parts = Path(os.path.normpath(folder)).relative_to(self.trees).parts
        except ValueError:
            return None
        return (parts[0], parts[1]) if len(parts) > 1 else None

    def top(self, folder: str) -> str | None:
        """Return the top of the worktree that a folder is in; None: it is in none."""
        found = self.find(folder)
        return None if found is None else str(self.trees.joinpath(*found))
