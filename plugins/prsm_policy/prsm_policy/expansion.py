"""Pathname expansion: the names that bash puts where a pattern stands, as the folders are."""

from __future__ import annotations

import os
import re
from itertools import islice

from msgspec import Struct, field

from prsm_core.policies import Part, UntoldError, part_of

MAX_ENTRIES = 20_000  # of folders, seen for one decision
MAX_SCANS = 500  # folders opened for one decision
MAX_FOUND = 6_000  # names for one decision

_SLASH = re.compile(r"\\?/")
_DOTS = frozenset({".", ".."})


class Sight(Struct):
    """How much of the folders one decision may still see; beyond that it raises UntoldError."""

    entries: int = MAX_ENTRIES
    scans: int = MAX_SCANS
    found: int = MAX_FOUND

    def scan(self) -> None:
        """Count a folder that is opened, or a name that is looked for."""
        self.scans -= 1
        if self.scans < 0:
            raise UntoldError("the pattern leads into too many folders")

    def see(self, count: int) -> None:
        """Count names that are matched."""
        self.entries -= count
        if self.entries < 0:
            raise UntoldError("the pattern is matched against too many names")

    def find(self, count: int) -> None:
        """Count names that the pattern stands for."""
        self.found -= count
        if self.found < 0:
            raise UntoldError("the pattern stands for too many names")


class Hit(Struct, frozen=True):
    """A name that a pattern stands for: as the shell writes it, and where it leads."""

    text: str
    resolved: str


class _Search(Struct):
    """One pattern being expanded below a folder that is resolved, inside a resolved root."""

    root: str
    sight: Sight
    hits: list[Hit] = field(default_factory=list)

    def walk(self, parts: list[Part], text: str, folder: str) -> None:
        """Add what matches the parts below a folder; `text` is how it was reached."""
        part, rest = parts[0], parts[1:]
        if part.literal is not None:
            self._literal(part.literal, rest, text, folder)
            return
        names = self._names(folder, part)
        found = [
            Hit(
                text + name, os.path.realpath(f"{folder}/{name}") if is_link else f"{folder}/{name}"
            )
            for name, is_link in names
        ]
        if not rest:
            self.sight.find(len(found))
            self.hits += found
        for hit in found if rest else ():
            self._step(rest, hit.text, hit.resolved)

    def _literal(self, name: str, rest: list[Part], text: str, folder: str) -> None:
        if name == "..":
            raise UntoldError("the pattern climbs")
        if not name and rest:
            raise UntoldError("the pattern holds two slashes")
        path = folder if name in {"", "."} else f"{folder}/{name}"
        self.sight.scan()
        if os.path.lexists(path):
            self._step(rest, text + name, os.path.realpath(path))

    def _step(self, rest: list[Part], text: str, resolved: str) -> None:
        if not rest:
            self.sight.find(1)
            self.hits.append(Hit(text, resolved))
        elif os.path.isdir(resolved):  # noqa: PTH112 - a Path for each is slow
            self.walk(rest, f"{text}/", resolved)

    def _names(self, folder: str, part: Part) -> list[tuple[str, bool]]:
        if folder != self.root and not folder.startswith(self.root.rstrip("/") + "/"):
            raise UntoldError("the pattern leads out of the workspace")
        self.sight.scan()
        if part.is_dotted and any(part.may_match(dots) for dots in _DOTS):
            raise UntoldError("it depends on the shell's version whether the pattern matches ..")
        try:
            with os.scandir(folder) as entries:
                seen = list(islice(entries, self.sight.entries + 1))
        except OSError:  # for the shell, too, nothing matches there
            return []
        self.sight.see(len(seen))
        return [(entry.name, entry.is_symlink()) for entry in seen if part.matches(entry.name)]


def expand(pattern: str, folder: str, root: str, sight: Sight) -> list[Hit]:
    """Return what a pattern stands for in a resolved folder, sorted; nothing where none matches.

    Raises UntoldError where that cannot be told, takes too long, or leads out of the root.
    """
    parts = [part_of(text) for text in _SLASH.split(pattern)]
    search = _Search(root, sight)
    if parts[0].literal == "" and len(parts) > 1:
        search.walk(parts[1:], "/", "")
    elif any(part.literal is None for part in parts):
        search.walk(parts, "", folder)
    return sorted(search.hits, key=lambda hit: hit.text)
