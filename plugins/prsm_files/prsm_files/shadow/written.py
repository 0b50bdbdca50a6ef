"""Tells those who look for changes of a folder what PRSM itself has written there.

They are trackers (`prsm_files.changes`), of living engines and of dead ones, each with a folder of
its own. What was written is beside what each knows, and becomes known by its next look. It says
what a file is to be, not that it is: what anybody changes afterwards is a change.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from prsm_files.shadow.files import put

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from prsm_files.shadow.records import Change, Snapshot
    from prsm_files.shadow.root import Root

TRACKERS = "trackers"  # the folder of those of a working tree
KNOWN = "known.json"  # there while one may go on: what it knows
WRITTEN = "written.json"  # what is to be known besides
Content = tuple[str, str] | None  # mode and blob; None: no file
Writing = tuple[Content, Content]  # what was replaced, and by what
# What one act has written, by root and by path from its top; and all acts by their ids, in order.
Writings = Mapping[str, Mapping[str, Writing]]
Acts = Mapping[str, Writings]


def note_restored(
    place: Path, root_of: Callable[[str], Root], act: str, was: Snapshot, now: Snapshot
) -> None:
    """Tell all trackers what a restore has written, by whoever has the lock. Raises OSError."""
    if not any(place.glob(f"{TRACKERS}/*/{KNOWN}")):
        return
    written = {}
    for state in now.roots:
        old = was.root(state.path)
        if old is not None:
            changes = root_of(state.path).compare(old.tree, state.tree)
            written[state.path] = {one.path: _writing(one) for one in changes}
    note(place, act, written)


def _writing(one: Change) -> Writing:
    return (
        (one.old_mode, one.old) if one.old else None,
        (one.new_mode, one.new) if one.new else None,
    )


def note(place: Path, act: str, written: Writings) -> None:
    """Tell all trackers what an act has written, by whoever has the lock. Raises OSError.

    One that was cut off, and is carried out again, has the same id.
    """
    if not any(written.values()):
        return
    for known in place.glob(f"{TRACKERS}/*/{KNOWN}"):
        file = known.with_name(WRITTEN)
        told = {**read_written(file), act: written}
        put(file, json.dumps(told).encode("ascii"))


def read_written(file: Path) -> Acts:
    """Return what was written."""
    try:
        return parsed(json.loads(file.read_bytes()))
    except (FileNotFoundError, ValueError):  # what a full disk left
        return {}


def parsed(given: Mapping[str, Any]) -> Acts:
    """Return what was written, of its JSON."""
    return {
        act: {
            root: {path: _read(one) for path, one in paths.items()} for root, paths in all_.items()
        }
        for act, all_ in given.items()
    }


def _read(given: Sequence[Any]) -> Writing:
    before, after = (None if one is None else (str(one[0]), str(one[1])) for one in given)
    return before, after
