"""Where the shadows of folders lie, and whether a restore was cut off; git is not run."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

from prsm_core.workspace.identity import repo_identity

if TYPE_CHECKING:
    from pathlib import Path

    from prsm_core.workspace.identity import RepoIdentity
    from prsm_core.workspace.shadow.git import Git
    from prsm_core.workspace.shadow.root import Limits
    from prsm_core.workspace.shadow.worktree import Shadow

INTENT = "intent.json"  # there from before a restore writes its first file until after its last


def place_of(identity: RepoIdentity, state: Path) -> Path:
    """Return the folder of a working tree's shadow."""
    name = hashlib.sha256(os.fsencode(identity.root)).hexdigest()[:12]
    return state / "shadows" / identity.key / name


class Shadows:
    """The shadows that PRSM itself keeps; `state` and `data` are its own folders, never stored."""

    def __init__(self, *, state: Path, data: Path, limits: Limits | None = None) -> None:
        self._state = state
        self._data = data
        self._limits = limits

    def is_cut_off(self, folder: Path) -> bool:
        """Return whether a restore of the working tree around a folder is not over."""
        return (place_of(repo_identity(folder), self._state) / INTENT).exists()

    def open(self, git: Git, folder: Path) -> Shadow:
        """Return the shadow of the working tree around a folder; it blocks. Raises ConfigError."""
        from prsm_core.workspace.shadow.opening import shadow_of  # few processes take snapshots

        return shadow_of(git, folder, state=self._state, data=self._data, limits=self._limits)
