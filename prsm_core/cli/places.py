"""Where the files of a workspace lie; without the settings, which cost ten times as much."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from prsm_core.config import Paths, ledger_path, resolve_paths
from prsm_core.errors import PrsmError
from prsm_core.interfaces.files import STRAYS
from prsm_core.workspace.identity import repo_identity

DELETIONS = "deletions"  # a folder of the state directory


def workspace_paths(workspace: str) -> Paths:
    """Return where the files of a workspace and the user's state lie; see resolve_paths."""
    return resolve_paths(Path(workspace), os.environ)


def deletion_notes(state: Path) -> list[Path]:
    """Return the notes of deletions that are not finished; see `sessions/deleting.py`."""
    return sorted((state / DELETIONS).glob("*.json"))


def has_strays(workspace: str) -> bool:
    """Return whether a killed act may have left something; False if the state is unreadable."""
    with suppress(PrsmError, OSError):
        return any((workspace_paths(workspace).state / STRAYS).iterdir())
    return False


def workspace_ledger(workspace: str) -> Path:
    """Return the ledger of the repository around a folder."""
    return ledger_path(workspace_paths(workspace), repo_identity(Path(workspace)).key)
