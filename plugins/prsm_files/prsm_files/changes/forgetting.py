"""Forgets what was kept for a session's changes, in the shadows of all folders; no git is needed.

What the refs kept goes with the next `prune` of the shadow, which a deletion of a snapshot runs.
"""

from __future__ import annotations

import hashlib
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

REFS = "refs/changes"


def name_of(session: str) -> str:
    """Return what the tracker of a session is called, and its refs."""
    return hashlib.sha256(session.encode()).hexdigest()[:16]


def base_of(session: str) -> str:
    """Return the ref of a root's files as they were before the first writing call of a run."""
    return f"{REFS}/{name_of(session)}/base"


def forget(state: Path, session: str) -> int:
    """Remove the trackers of a session and their refs; return how many files went."""
    name = name_of(session)
    count = 0
    for pattern in (f"*/*/trackers/{name}", f"*/*/roots/*/git/{REFS}/{name}"):
        for folder in (state / "shadows").glob(pattern):
            count += sum(file.is_file() for file in folder.rglob("*"))
            shutil.rmtree(folder)
    return count
