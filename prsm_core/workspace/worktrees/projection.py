"""What of an agent's changes may reach the folder its worktree was made from: those in its region.

Agents whose regions are disjoint can then be merged in any order: what is written for one of them
is at paths at which nothing is ever written for another. A path is judged by its name alone, as the
folder's file system compares names; so of a file that is moved across the border of a region one
half is inside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Self

from prsm_core.kit.filenames import fold_of
from prsm_core.workspace.worktrees.records import Left

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from prsm_core.kit.filenames import Fold
    from prsm_core.workspace.worktrees.records import Tree
    from prsm_core.workspace.worktrees.results import Changed, Result

OUTSIDE = "it is outside of the agent's region"
ALL = "."


class Projection:
    """Tells what is in a region; None is all there is.

    Args:
        region: Files and folders from the top.
        fold: How the file system of the working tree that is merged into compares names.
    """

    def __init__(self, region: Iterable[str] | None, fold: Fold) -> None:
        self._fold = fold
        whole = region is None or ALL in region
        self._region = None if whole or region is None else tuple(map(fold, region))

    @classmethod
    def of(cls, tree: Tree) -> Self:
        """Return what is in the region of a worktree."""
        return cls(tree.region, fold_of(tree.parent))

    def holds(self, path: str) -> bool:
        """Return whether a path, from the top, is in the region."""
        return self._region is None or any(
            _is_in(self._fold(path), folder) for folder in self._region
        )

    def top_of(self, path: str) -> str:
        """Return the file or folder of the region that a path is in, as the path spells it."""
        parts, own = path.split("/"), self._region or ()
        tops = ("/".join(parts[:count]) for count in range(1, len(parts) + 1))
        return next((top for top in tops if self._fold(top) in own), "")

    def touches(self, path: str) -> bool:
        """Return whether a folder is in the region, or has some of it inside."""
        name = self._fold(path)
        return self.holds(path) or any(_is_in(own, name) for own in self._region or ())


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


class Parted(NamedTuple):
    """What is to be merged, what cannot be, and what is not to be."""

    changes: Sequence[Changed]
    strange: Sequence[Left]
    outside: tuple[Left, ...]


def part(
    projection: Projection,
    result: Result,
    *,
    new: Sequence[Changed],
    whole: Sequence[Changed],
) -> Parted:
    """Part what an agent has changed; `new` is what no merge has seen, `whole` all that it did.

    What is outside is told as long as it is there: it is merged never.
    """
    outside = [Left(one.name, OUTSIDE) for one in whole if not projection.holds(one.name)]
    strange = []
    for one in result.strange:
        if projection.touches(one.path):
            strange.append(one)
        else:
            outside.append(Left(one.path, f"{OUTSIDE}, and {one.why}"))
    inside = [one for one in new if projection.holds(one.name)]
    return Parted(inside, strange, tuple(outside))
