"""What an agent has changed in its worktree: what is there beside what it began with."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msgspec import Struct

from prsm_files.changes.looking import RootLook
from prsm_files.changes.records import Entry
from prsm_files.shadow.git import listed
from prsm_files.shadow.hindrances import HinderedError
from prsm_files.shadow.records import joined
from prsm_files.worktrees.making import beside, index_of
from prsm_files.worktrees.records import Left

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from prsm_files.shadow.git import GitDir
    from prsm_files.shadow.root import Root
    from prsm_files.worktrees.making import RootOf
    from prsm_files.worktrees.records import Part, Tree

FILE_BYTES = 100 * 2**20  # larger ones are in no shadow


class Changed(Struct, frozen=True):
    """A path that is not as it was, from the top of the repository in which it is."""

    path: str
    before: Entry | None
    after: Entry | None
    root: str = ""

    @property
    def name(self) -> str:
        """The same from the top of the worktree."""
        return joined(self.root, self.path)


class Result(Struct, frozen=True, kw_only=True):
    """The files of a worktree at a moment.

    Attributes:
        trees: All of them, a tree for each part, in the shadow of its root.
        strange: What is there and is no file that could be merged.
    """

    trees: tuple[str, ...]
    strange: tuple[Left, ...] = ()


def look(root_of: RootOf, tree: Tree, place: Path) -> Result:
    """Store the files of a worktree as they are now; indexes in `place` tell how they were.

    Raises GitFailedError and OSError.
    """
    trees, strange = [], []
    for part in tree.parts:
        try:
            root = root_of(part.path)
        except HinderedError:
            # What the agent did there can be compared with nothing any more.
            strange.append(Left(part.path, "the submodule is not in the folder any more"))
            trees.append(part.result or part.origin)
            continue
        stored, odd = _look_at(root, tree, part, index_of(place, tree, part))
        trees.append(stored)
        strange += [Left(joined(part.path, one.path), one.why) for one in odd]
    return Result(trees=tuple(trees), strange=tuple(strange))


def _look_at(root: Root, tree: Tree, part: Part, index: Path) -> tuple[str, list[Left]]:
    looked = RootLook(beside(root, tree, part), index, FILE_BYTES)
    differing = looked.differing()
    now = looked.now((*differing.changed, *differing.others), {})
    strange = [Left(top, "it is a repository of its own") for top in differing.tops]
    for path, known in now.items():
        if known.entry is not None and not known.entry.blob:
            strange.append(Left(path, known.entry.why))
    stored = {
        path: known.entry for path, known in now.items() if known.entry is None or known.entry.blob
    }
    return _tree(root, part, stored, index), strange


def _tree(root: Root, part: Part, stored: dict[str, Entry | None], index: Path) -> str:
    """Return the tree of what was there at the beginning, with what is stored instead."""
    copy = fresh(index.with_name("result.index"))
    root.shadow.run("read-tree", part.origin, index=copy)
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
            root.path,
        )
        for one in root.compare(old, new)
    ]
