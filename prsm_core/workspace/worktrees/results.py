"""What an agent has changed in its worktree: what is there beside what it began with."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from prsm_core.domain.record import Record
from prsm_core.workspace.changes.looking import RootLook
from prsm_core.workspace.changes.records import Entry
from prsm_core.workspace.shadow.git import listed
from prsm_core.workspace.worktrees.making import beside
from prsm_core.workspace.worktrees.records import Left

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from prsm_core.workspace.shadow.git import GitDir
    from prsm_core.workspace.shadow.root import Root
    from prsm_core.workspace.worktrees.records import Tree

FILE_BYTES = 100 * 2**20  # larger ones are in no shadow


class Changed(Record, frozen=True):
    """A path that is not as it was, from the top of the worktree."""

    path: str
    before: Entry | None
    after: Entry | None


class Result(Record, frozen=True, kw_only=True):
    """The files of a worktree at a moment.

    Attributes:
        tree: All of them, in the parent's shadow.
        strange: What is there and is no file that could be merged.
    """

    tree: str
    strange: tuple[Left, ...] = ()


def look(root: Root, tree: Tree, index: Path) -> Result:
    """Store the files of a worktree as they are now; `index` tells how they were.

    Raises GitFailedError and OSError.
    """
    looked = RootLook(beside(root, tree), index, FILE_BYTES)
    differing = looked.differing()
    now = looked.now((*differing.changed, *differing.others), {})
    strange = [Left(top, "it is a repository of its own") for top in differing.tops]
    for path, known in now.items():
        if known.entry is not None and not known.entry.blob:
            strange.append(Left(path, known.entry.why))
    stored = {
        path: known.entry for path, known in now.items() if known.entry is None or known.entry.blob
    }
    return Result(tree=_tree(root, tree, stored, index), strange=tuple(strange))


def _tree(root: Root, tree: Tree, stored: dict[str, Entry | None], index: Path) -> str:
    """Return the tree of what was there at the beginning, with what is stored instead."""
    copy = fresh(index.with_name("result.index"))
    root.shadow.run("read-tree", tree.origin, index=copy)
    put(root.shadow, stored, copy)
    return root.shadow.word("write-tree", index=copy)


def put(git: GitDir, entries: Mapping[str, Entry | None], index: Path) -> None:
    """Have an index say this of paths; None: there is nothing. Raises GitFailedError.

    What goes comes first: a folder may be where a file was.
    """
    gone = [path for path, entry in entries.items() if entry is None]
    if gone:
        git.run("update-index", "-z", "--force-remove", "--stdin", stdin=listed(gone), index=index)
    lines = [
        f"{entry.mode} {entry.blob}\t{path}\0"
        for path, entry in entries.items()
        if entry is not None
    ]
    if lines:
        told = os.fsencode("".join(lines))
        git.run("update-index", "--add", "--replace", "-z", "--index-info", stdin=told, index=index)


def fresh(index: Path) -> Path:
    """Return the name of an index that is not there, nor a lock that a dead one has left."""
    index.unlink(missing_ok=True)
    index.with_name(f"{index.name}.lock").unlink(missing_ok=True)
    return index


def differing(root: Root, old: str, new: str) -> Sequence[Changed]:
    """Return how the files of one tree differ from those of another. Raises ContentGoneError."""
    return [
        Changed(
            one.path,
            Entry(one.old_mode, one.old) if one.old else None,
            Entry(one.new_mode, one.new) if one.new else None,
        )
        for one in root.compare(old, new)
    ]
