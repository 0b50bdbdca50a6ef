"""What the names can be that a command prints: of files in a tree, as it is on the disk.

Names that another command takes for its operands must not lead to a secret or out of the workspace,
and must not become options or other words on the way.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from enum import IntEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from prsm_core.policies import is_within, secret_part

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prsm_policy.places import Place

_SPLITS = re.compile(r"[\s'\"\\]|^-|[^ -~\u00a1-\U0010ffff]")
_EXPANDS = re.compile(r"[*?\[]")
_SIMPLE_PATTERN = re.compile(r"[\w.*?+@-]+")


class Passage(IntEnum):
    """How names reach the next command: as they are, line by line, or split by a shell."""

    WHOLE = 0
    LINES = 1
    WORDS = 2


@dataclass(frozen=True, slots=True)
class Names:
    """Names of files below some folders.

    `patterns` are what the last part of each matches, None for any; `hidden` says that parts may
    begin with a dot, `tracked` that git knows them.
    """

    roots: tuple[str, ...]
    patterns: tuple[str, ...] | None = None
    hidden: bool = True
    tracked: bool = False

    def are_harmless(self, place: Place, passage: Passage) -> bool:
        """Return whether whatever reads all these files shows no secret and takes them for files.

        Not if there are too many to be looked at.
        """
        if not place.is_seen:
            return True
        found = place.looks.found
        if (self, passage) not in found:
            found[self, passage] = self._search(place, passage)
        return found[self, passage]

    def _search(self, place: Place, passage: Passage) -> bool:
        folders = [(root, False, False) for root in self.roots]
        while folders:
            folder, is_found, is_split = folders.pop()
            if not is_within(folder, place.root):
                return False
            try:
                with os.scandir(folder) as entries:
                    inner = self._look_through(entries, folder, is_found, is_split, place, passage)
            except (FileNotFoundError, NotADirectoryError):
                continue  # then nothing is found in it
            except OSError:
                return False
            if inner is None:
                return False
            folders += inner
        return True

    def _look_through(
        self,
        entries: Iterable[os.DirEntry[str]],
        folder: str,
        is_found: bool,
        is_split: bool,
        place: Place,
        passage: Passage,
    ) -> list[tuple[str, bool, bool]] | None:
        """Return the folders in a folder, None if something in it must not be read.

        All that is in a folder that `is_found` itself is, as readers may go through it; and all
        that is found below a name that `is_split` on the way is something else then.
        """
        inner: list[tuple[str, bool, bool]] = []
        is_secret = secret_part(folder[len(place.root) :]) is not None
        for entry in entries:
            place.looks.entries -= 1
            if place.looks.entries < 0:
                return None
            name = entry.name
            if not self.hidden and name.startswith("."):
                continue
            found = is_found or self._is_found(name)
            if found and (is_secret or is_split or _is_risky(entry, place.root, passage)):
                return None
            if self.tracked and name == ".git":
                continue
            if entry.is_dir(follow_symlinks=False):
                inner.append((entry.path, found, is_split or _is_split(name, passage)))
        return inner

    def _is_found(self, name: str) -> bool:
        if self.patterns is None:
            return True
        name = name.casefold()
        return any(fnmatchcase(name, pattern.casefold()) for pattern in self.patterns)


def simple_pattern(text: str) -> bool:
    """Return whether a pattern means the same to everything that matches names."""
    return _SIMPLE_PATTERN.fullmatch(text) is not None


def _is_split(name: str, passage: Passage) -> bool:
    """Return whether a name becomes something else on its way."""
    if passage >= Passage.LINES and _SPLITS.search(name):
        return True
    return passage >= Passage.WORDS and _EXPANDS.search(name) is not None


def _is_risky(entry: os.DirEntry[str], root: str, passage: Passage) -> bool:
    if _is_split(entry.name, passage) or secret_part(entry.name) is not None:
        return True
    if not entry.is_symlink():
        return False
    target = os.path.realpath(entry.path)
    return not is_within(target, root) or secret_part(target[len(root) :]) is not None
