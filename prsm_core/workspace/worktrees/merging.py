"""Merges what an agent has changed in its region into the folder its worktree was made from.

All of that, or nothing. Each file is merged three ways: what it was in the worktree at first is the
base, what it is in the folder now is one side, what the agent made of it the other. HEAD, the
staging area and the stash of the person stay as they are. What does not merge keeps all the rest
from being written, for half of an agent's work is none. What is to be written is on the disk before
the first file changes.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from prsm_core.workspace.changes.merging import find_side, merged_lines
from prsm_core.workspace.changes.records import LINK
from prsm_core.workspace.changes.writing import Operation, planned, write
from prsm_core.workspace.shadow.git import GitFailedError
from prsm_core.workspace.worktrees.records import Left

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prsm_core.workspace.changes.merging import Side
    from prsm_core.workspace.shadow.root import Root
    from prsm_core.workspace.worktrees.results import Changed

MEANWHILE = "it was changed while the merge was written"


def plan(root: Root, changes: Sequence[Changed]) -> tuple[list[Operation], list[Left]]:
    """Return what a merge would write, and what does not merge. Raises OSError, GitFailedError.

    What is deleted comes first: it makes room, where a file has become a folder, or a folder one.
    """
    operations, conflicts = [], []
    going: set[str] = set()
    for one in sorted(changes, key=lambda one: one.after is not None):
        side = find_side(root, one.path, going)
        new = _merged(root, side, one)
        if isinstance(new, Left):
            conflicts.append(new)
        elif new.entry != side.entry:
            operations.append(planned(root, one.path, side.entry, new.entry))
            if new.entry is None:
                going.add(one.path)
    return operations, conflicts


def _merged(root: Root, side: Side, change: Changed) -> Side | Left:
    """Return what a path is to be, or why it does not merge."""
    now, before, after = side.entry, change.before, change.after
    if side.why:
        return Left(change.path, side.why)
    if now == after:  # as if it were merged already
        return side
    if now == before:
        return side._replace(entry=after)
    if now is None:
        return Left(change.path, "it was deleted meanwhile")
    if before is None:
        return Left(change.path, "another file of this name was made meanwhile")
    if after is None:
        return Left(change.path, "the agent deleted it, and it was changed meanwhile")
    if LINK in {now.mode, before.mode, after.mode}:
        return Left(change.path, "it is, or was, a link, and was changed meanwhile")
    mode = after.mode if now.mode == before.mode else now.mode
    new = merged_lines(root, now, after, before, mode)
    return Left(change.path, _why(new.why)) if new.why else new


def _why(why: str) -> str:
    same = "later edits touched the same lines"
    return "the same lines were changed meanwhile" if why == same else why


def _whole(_: str) -> str:
    return ""


def carry_out(
    root: Root,
    tree_id: str,
    operations: Sequence[Operation],
    *,
    is_back: bool = False,
    top_of: Callable[[str], str] = _whole,
) -> list[Left]:
    """Write what is not written yet; return what somebody has changed meanwhile.

    Folders that are empty then go, up to that which `top_of` tells of a path: what is above it is
    others', who may be about to write there.

    Where a file cannot be written, as on a full disk, that is what is returned, and no more is
    written. What goes back cannot stay: then it raises OSError, or GitFailedError.
    """
    lost = []
    for number, one in enumerate(operations):
        try:
            keeps = os.path.dirname(top_of(one.path))  # noqa: PTH120
            is_done = write(root, one, f"{tree_id}-{number}", keeps=keeps)
        except (OSError, GitFailedError) as error:
            if is_back:
                raise
            said = error.strerror if isinstance(error, OSError) else error.said
            return [Left(one.path, f"it cannot be written: {said}")]
        if not is_done:
            lost.append(Left(one.path, MEANWHILE))
    return lost


def turned(operations: Sequence[Operation]) -> tuple[Operation, ...]:
    """Return what takes operations back, the last one first."""
    return tuple(
        Operation(
            one.root,
            one.path,
            one.new,
            one.old,
            new_bits=None if one.old is None else one.old_bits,
            folders=one.folders,
        )
        for one in reversed(operations)
    )
