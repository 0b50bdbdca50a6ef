"""Where the shadows of folders lie, and whether a restore was cut off; git is not run."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

from prsm_core.workspace.identity import repo_identity

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from prsm_core.workspace.identity import RepoIdentity
    from prsm_core.workspace.shadow.git import Git
    from prsm_core.workspace.shadow.root import Limits
    from prsm_core.workspace.shadow.worktree import Shadow

LOCK_SECONDS = 30.0  # for another process
INTENT = "intent.json"  # there from before a restore writes its first file until after its last

PRUNE = "prune"  # there while content is to be removed that no snapshot needs any more


def place_of(identity: RepoIdentity, state: Path) -> Path:
    """Return the folder of a working tree's shadow."""
    name = hashlib.sha256(os.fsencode(identity.root)).hexdigest()[:12]
    return state / "shadows" / identity.key / name


def forget(state: Path, snapshots: Collection[str]) -> int:
    """Forget snapshots of any folder; return how many there were. Raises ConfigError, OSError.

    git is not needed: their names go. The next who works on such a folder removes their content.
    """
    from prsm_core.workspace.shadow.lock import folder_lock  # few processes forget any

    gone = set()
    for place in sorted(state.glob("shadows/*/*")):
        names = [ref for one in snapshots for ref in place.glob(f"roots/*/git/refs/prsm/{one}")]
        if names:
            with folder_lock(place, LOCK_SECONDS):
                (place / PRUNE).touch(mode=0o600)
                for ref in names:
                    ref.unlink(missing_ok=True)
                    gone.add(ref.name)
    return len(gone)


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
