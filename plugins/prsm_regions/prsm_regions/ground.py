"""Regions of a workspace: what a planner calls one, and which of them touch."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from prsm_core.kit import names_file

if TYPE_CHECKING:
    from collections.abc import Callable

_WHOLE = "."
_GLOBS = ("/**", "/*")  # of a folder: it says all below it by itself


@dataclass(frozen=True, slots=True)
class Ground:
    """The workspace that is divided; `real` follows links, also of what is not there yet."""

    root: str
    real: Callable[[str], str] = os.path.realpath
    is_there: Callable[[str], bool] = os.path.lexists
    is_folder: Callable[[str], bool] = os.path.isdir

    def holds_file(self, place: str) -> bool:
        """Return whether a region is a file: one that is not there yet is one by its name."""
        path = str(PurePosixPath(self.real(self.root)) / place)
        return not self.is_folder(path) if self.is_there(path) else names_file(place)

    def place(self, region: str) -> str:
        """Return a region as a path below the root; raise ValueError, with the cure, for others."""
        text = region.strip()
        for glob in _GLOBS:
            text = text.removesuffix(glob)
        if not text or "\0" in text:
            raise ValueError("a region is blank: name a folder or a file of the workspace")
        path = PurePosixPath(text)
        if path.is_absolute():
            raise ValueError(f"region {region!r} is absolute: write it relative to the workspace")
        if ".." in path.parts:
            raise ValueError(f"region {region!r} goes up: name a folder or file without `..`")
        if ".git" in path.parts:
            raise ValueError(f"region {region!r} is git's own: name a folder or file of the work")
        place = self._below(region, path)
        if text.strip() != region.strip() or text.endswith("/"):
            self._check_folder(region, place)
        return place

    def _check_folder(self, region: str, place: str) -> None:
        """Raise ValueError for what is said to be a folder, and is or would be taken for a file."""
        if place != _WHOLE and self.holds_file(place):
            raise ValueError(
                f"region {region!r} is said to be a folder, and {place} is a file, or is taken for "
                "one by its name as long as it is not there: name the folder above it"
            )

    def _below(self, region: str, path: PurePosixPath) -> str:
        root = self.real(self.root)
        real = self.real(str(PurePosixPath(root) / path))
        if not PurePosixPath(real).is_relative_to(root):
            raise ValueError(
                f"region {region!r} leads out of the workspace, to {real}: name one that stays"
            )
        return str(PurePosixPath(real).relative_to(root))


def touch(one: str, other: str) -> bool:
    """Return whether a region holds another, or is the same."""
    return is_below(one, other) or is_below(other, one)


def is_below(path: str, region: str) -> bool:
    """Return whether a path is a region's or in it, both relative to the workspace."""
    place = plain(region)
    return place in {"", ".", "**"} or path == place or path.startswith(f"{place}/")


def plain(region: str) -> str:
    """Return a region without what only says that it is a folder."""
    return region.strip("/").removesuffix("/**").removesuffix("/*")
