"""The shadow of a folder as PRSM itself keeps it: with the person's settings, and random ids."""

from __future__ import annotations

import os
import secrets
import time
from typing import TYPE_CHECKING

from prsm_core.workspace.shadow.worktree import Shadow

if TYPE_CHECKING:
    from pathlib import Path

    from prsm_core.workspace.shadow.git import Git

_ID_BYTES = 4


def shadow_of(git: Git, folder: Path, *, state: Path, data: Path) -> Shadow:
    """Return the shadow of the working tree around a folder; it blocks. Raises ConfigError.

    `state` and `data` are PRSM's own folders, which no snapshot holds.
    """
    return Shadow(
        git,
        folder,
        state,
        environ=os.environ,
        now=time.time,
        new_id=lambda: secrets.token_hex(_ID_BYTES),
        own=(data,),
    )
