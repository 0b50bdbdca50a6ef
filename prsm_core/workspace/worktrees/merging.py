"""Merges what an agent has changed in its region into the folder its worktree was made from.

All of that, or nothing. Each file is merged three ways: what it was in the worktree at first is the
base, what it is in the folder now is one side, what the agent made of it the other. HEAD, the
staging area and the stash of the person stay as they are. What does not merge keeps all the rest
from being written, for half of an agent's work is none. What is to be written is on the disk before
the first file changes.
"""

from __future__ import annotations

import os
from collections import defaultdict
from typing import TYPE_CHECKING

from prsm_core.workspace.changes.merging import find_side, merged_lines
from prsm_core.workspace.changes.records import LINK
from prsm_core.workspace.changes.writing import Operation, planned, write
from prsm_core.workspace.shadow.git import GitFailedError
from prsm_core.workspace.shadow.hindrances import HinderedError
from prsm_core.workspace.shadow.records import joined
from prsm_core.workspace.worktrees.records import Left

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prsm_core.workspace.changes.merging import Side
    from prsm_core.workspace.shadow.root import Root
    from prsm_core.workspace.worktrees.making import RootOf
    from prsm_core.workspace.worktrees.results import Changed

MEANWHILE = "it was changed while the merge was written"


def plan(root_of: RootOf, changes: Sequence[Changed]) -> tuple[list[Operation], list[Left]]:
    """Return what a merge would write, and what does not merge. Raises OSError, GitFailedError.

    What is deleted comes first: it makes room, where a file has become a folder, or a folder one.
    """
    operations, conflicts = [], []
    going: defaultdict[str, set[str]] = defaultdict(set)
    for one in sorted(changes, key=lambda one: one.after is not None):
        root = root_of(one.root)
        side = find_side(root, one.path, going[one.root])
        new = _merged(root, side, one)
        if isinstance(new, Left):
            conflicts.append(new)
        elif new.entry != side.entry:
            operations.append(planned(root, one.path, side.entry, new.entry))
            if new.entry is None:
                going[one.root].add(one.path)
    return operations, conflicts


def _merged(root: Root, side: Side, change: Changed) -> Side | Left:
    """Return what a path is to be, or why it does not merge."""
    now, before, after = side.entry, change.before, change.after
    if side.why:
        return Left(change.name, side.why)
    if now == after:  # as if it were merged already
        return side
    if now == before:
        return side._replace(entry=after)
    if now is None:
        return Left(change.name, "it was deleted meanwhile")
    if before is None:
        return Left(change.name, "another file of this name was made meanwhile")
    if after is None:
        return Left(change.name, "the agent deleted it, and it was changed meanwhile")
    if LINK in {now.mode, before.mode, after.mode}:
        return Left(change.name, "it is, or was, a link, and was changed meanwhile")
    mode = after.mode if now.mode == before.mode else now.mode
    new = merged_lines(root, now, after, before, mode)
    return Left(change.name, _why(new.why)) if new.why else new


def _why(why: str) -> str:
    same = "later edits touched the same lines"
    return "the same lines were changed meanwhile" if why == same else why


def _whole(_: str) -> str:
    return ""


def carry_out(
    root_of: RootOf,
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
            keeps = _folder_above(top_of(name_of(one)), one.root)
            is_done = write(root_of(one.root), one, f"{tree_id}-{number}", keeps=keeps)
        except (OSError, GitFailedError, HinderedError) as error:
            if is_back:
                raise
            return [Left(name_of(one), f"it cannot be written: {_said(error)}")]
        if not is_done:
            lost.append(Left(name_of(one), MEANWHILE))
    return lost


def name_of(one: Operation) -> str:
    """Return the path of an operation from the top of the worktree."""
    return joined(one.root, one.path)


def _folder_above(path: str, root: str) -> str:
    """Return the folder that a path is in, from the top of its root; that itself at most."""
    above = os.path.dirname(path)  # noqa: PTH120 - a name, from the top
    if not root:
        return above
    return above.removeprefix(f"{root}/") if above.startswith(f"{root}/") else ""


def _said(error: OSError | GitFailedError | HinderedError) -> str:
    if isinstance(error, OSError):
        return str(error.strerror)
    return error.said if isinstance(error, GitFailedError) else str(error)


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
