"""Tells those who look for changes of a folder what PRSM itself has written there.

They are trackers (`workspace.changes`), of living engines and of dead ones, each with a folder of
its own. What was written is beside what each knows, and becomes known by its next look. It says
what a file is to be, not that it is: what anybody changes afterwards is a change.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from prsm_core.workspace.shadow.records import Snapshot
    from prsm_core.workspace.shadow.root import Root

TRACKERS = "trackers"  # the folder of those of a working tree
KNOWN = "known.json"  # there while one may go on: what it knows
WRITTEN = "written.json"  # what is to be known besides
Content = tuple[str, str] | None  # mode and blob; None: no file


def note_restored(
    place: Path, root_of: Callable[[str], Root], was: Snapshot, now: Snapshot
) -> None:
    """Tell all trackers what a restore has written, by whoever has the lock. Raises OSError."""
    if not any(place.glob(f"{TRACKERS}/*/{KNOWN}")):
        return
    for state in now.roots:
        old = was.root(state.path)
        if old is not None:
            changes = root_of(state.path).compare(old.tree, state.tree)
            note(
                place, state.path, {c.path: (c.new_mode, c.new) if c.new else None for c in changes}
            )


def note(place: Path, root: str, written: Mapping[str, Content]) -> None:
    """Tell all trackers what paths of a root are now, by whoever has the lock. Raises OSError."""
    if not written:
        return
    for known in place.glob(f"{TRACKERS}/*/{KNOWN}"):
        file = known.with_name(WRITTEN)
        told = dict(read_written(file))
        told[root] = {**told.get(root, {}), **written}
        descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=".written-")
        with os.fdopen(descriptor, "wb") as new:
            new.write(json.dumps(told).encode("ascii"))
        Path(name).replace(file)


def read_written(file: Path) -> Mapping[str, Mapping[str, Content]]:
    """Return what was written, by root and path."""
    try:
        given: Mapping[str, Mapping[str, Content]] = json.loads(file.read_bytes())
    except (FileNotFoundError, ValueError):  # what a full disk left
        return {}
    return {
        root: {path: None if one is None else (one[0], one[1]) for path, one in paths.items()}
        for root, paths in given.items()
    }
