"""Submodules and repositories inside a folder: each is a root of its own."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from prsm_files.shadow.place import find_repository

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prsm_files.shadow.git import GitDir
    from prsm_files.shadow.records import Snapshot

MOST = 100  # repositories in a folder


class RealFolders:
    """Tells, for one look at a root, which folders are folders and not links to some."""

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self._known: dict[str, bool] = {"": True}

    def holds(self, path: str) -> bool:
        """Return whether the folders above a path are real ones."""
        parent = path.rpartition("/")[0]
        known = self._known.get(parent)
        if known is None:
            known = self._known[parent] = self.holds(parent) and self._is_real(parent)
        return known

    def has(self, folder: str) -> bool:
        """Return whether there is a folder, and no link on the way to it."""
        return self.holds(f"{folder}/")

    def is_behind_link(self, path: str) -> bool:
        """Return whether a folder above a path is a link."""
        parent = path.rpartition("/")[0]
        if not parent or self.holds(path):
            return False
        return os.path.islink(f"{self._root}/{parent}") or self.is_behind_link(parent)  # noqa: PTH114

    def _is_real(self, folder: str) -> bool:
        try:
            return stat.S_ISDIR(os.lstat(f"{self._root}/{folder}").st_mode)
        except OSError:
            return False


def submodules(folder: Path, person: GitDir) -> list[str]:
    """Return the paths of submodules, checked out or not, also of those that git ignores.

    Of an index that cannot be read none are known, which a snapshot tells.
    """
    if not (folder / ".gitmodules").is_file():
        return []
    entries = person.ask("ls-files", "-s", "-z").out.split(b"\0")
    return [os.fsdecode(one.partition(b"\t")[2]) for one in entries if one.startswith(b"160000 ")]


def roots_among(folder: Path, paths: Iterable[str]) -> list[str]:
    """Return those paths that are tops of repositories, without the slash at their end."""
    real = RealFolders(folder)
    tops = dict.fromkeys(path.rstrip("/") for path in paths)
    return sorted(
        top for top in tops if real.has(top) and find_repository(Path(folder, top)) is not None
    )


def roots_below(snapshot: Snapshot, path: str) -> list[str]:
    """Return the roots that lie in a root, but not in another one there; from its top."""
    top = f"{path}/" if path else ""
    below = [state.path for state in snapshot.roots if state.path and state.path.startswith(top)]
    return [
        one[len(top) :] for one in below if not any(one.startswith(f"{other}/") for other in below)
    ]
