"""What lies in a shadow for those who look for changes: trackers, each with a folder of its own.

A tracker is of an engine, living or dead. What PRSM itself has written is told to all of them, and
is known by their next look. It says what a file is to be, not that it is: what anybody changes
afterwards is a change.
"""

from __future__ import annotations

import hashlib
import shutil
from typing import TYPE_CHECKING

from prsm_files.shadow.files import put_json, read_json
from prsm_files.shadow.records import Change

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from prsm_files.shadow.records import Snapshot
    from prsm_files.shadow.root import Root

TRACKERS = "trackers"  # the folder of those of a working tree
KNOWN = "known.json"  # there while one may go on: what it knows
WRITTEN = "written.json"  # what is to be known besides
REFS = "refs/changes"
Writings = dict[str, tuple[Change, ...]]  # what acts have written, by their ids, in order


def note_restored(
    place: Path, root_of: Callable[[str], Root], act: str, was: Snapshot, now: Snapshot
) -> None:
    """Tell all trackers what a restore has written, by whoever has the lock. Raises OSError."""
    if any(place.glob(f"{TRACKERS}/*/{KNOWN}")):
        written: list[Change] = []
        for state in now.roots:
            if (old := was.root(state.path)) is not None:
                written += root_of(state.path).compare(old.tree, state.tree)
        note(place, act, written)


def note(place: Path, act: str, written: Sequence[Change]) -> None:
    """Tell all trackers what an act has written; again, if it was cut off. Raises OSError."""
    if written:
        for known in place.glob(f"{TRACKERS}/*/{KNOWN}"):
            file = known.with_name(WRITTEN)
            put_json(file, {**read_written(file), act: written})


def read_written(file: Path) -> Writings:
    """Return what was written."""
    return read_json(file, Writings) or {}


def name_of(session: str) -> str:
    """Return what the tracker of a session is called, and its refs."""
    return hashlib.sha256(session.encode()).hexdigest()[:16]


def base_of(session: str) -> str:
    """Return the ref of a root's files as they were before the first writing call of a run."""
    return f"{REFS}/{name_of(session)}/base"


def forget(state: Path, session: str) -> int:
    """Remove a session's trackers and refs, without git; return how many files went."""
    name = name_of(session)
    count = 0
    for pattern in (f"*/*/trackers/{name}", f"*/*/roots/*/git/{REFS}/{name}"):
        for folder in (state / "shadows").glob(pattern):
            count += sum(file.is_file() for file in folder.rglob("*"))
            shutil.rmtree(folder)
    return count
