"""Where the shadows of folders lie, and whether a restore was cut off; git is not run."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from prsm_core.workspace.identity import RepoIdentity

LOCK_SECONDS = 30.0  # for another process
INTENT = "intent.json"  # there from before a restore writes its first file until after its last
OWED = "owed.json"  # there while what a restore was a part of is not done
PRUNE = "prune"  # there while content is to be removed that no snapshot needs any more


def place_of(identity: RepoIdentity, state: Path) -> Path:
    """Return the folder of a working tree's shadow."""
    name = hashlib.sha256(os.fsencode(identity.root)).hexdigest()[:12]
    return state / "shadows" / identity.key / name


def forget(state: Path, snapshots: Collection[str], *, wait_seconds: float = LOCK_SECONDS) -> int:
    """Forget snapshots of any folder; return how many there were. Raises ConfigError, OSError.

    git is not needed: their names go. The next who works on such a folder removes their content.
    """
    from prsm_core.workspace.shadow.lock import folder_lock  # few processes forget any

    gone = set()
    for place in sorted(state.glob("shadows/*/*")):
        names = [ref for one in snapshots for ref in place.glob(f"roots/*/git/refs/prsm/{one}")]
        if names:
            with folder_lock(place, wait_seconds):
                (place / PRUNE).touch(mode=0o600)
                for ref in names:
                    ref.unlink(missing_ok=True)
                    gone.add(ref.name)
    return len(gone)
