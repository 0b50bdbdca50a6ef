"""The shadows that PRSM itself keeps: with the person's settings, and random ids."""

from __future__ import annotations

import os
import secrets
import time
from typing import TYPE_CHECKING

from prsm_core.files import repo_identity
from prsm_files.shadow.whereabouts import ACT, INTENT, OWED, Where, place_of

if TYPE_CHECKING:
    from pathlib import Path

    from prsm_files.shadow.git import Git
    from prsm_files.shadow.root import Limits
    from prsm_files.shadow.worktree import Shadow

_ID_BYTES = 4


class Shadows:
    """All shadows of a state directory. Agents have their worktrees in `trees`, if any."""

    def __init__(
        self, *, state: Path, data: Path, limits: Limits | None = None, trees: Path | None = None
    ) -> None:
        self.trees = None if trees is None else Where(state, trees.resolve())
        self._state = state
        self._data = data
        self._limits = limits

    def is_cut_off(self, folder: Path) -> bool:
        """Return whether an act around a folder is not over, or what a restore was a part of."""
        place = place_of(repo_identity(folder), self._state)
        return any((place / name).exists() for name in (INTENT, OWED, ACT))

    def open(self, git: Git, folder: Path) -> Shadow:
        """Return the shadow of the working tree around a folder; it blocks. Raises ConfigError."""
        from prsm_files.shadow.worktree import Shadow  # once a snapshot is taken

        return Shadow(
            git,
            folder,
            self._state,
            environ=os.environ,
            now=time.time,
            new_id=lambda: secrets.token_hex(_ID_BYTES),
            limits=self._limits,
            own=(self._data, *(() if self.trees is None else (self.trees.trees,))),
        )
