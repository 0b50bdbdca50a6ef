"""Contents as the repository stores them: line ends converted where it says so.

What a filter converts is left to the person: a filter is a program, and none runs here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from prsm_core.workspace.changes.records import LINK, Entry
from prsm_core.workspace.shadow.git import persons_env

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prsm_core.workspace.commits.repository import PersonsRepository

_CONVERTING = ("text", "eol", "crlf", "ident", "working-tree-encoding")
_NONE = frozenset({"unset"})


class Converter:
    """Knows of some paths of a repository how their contents are stored. Raises GitFailedError."""

    def __init__(self, person: PersonsRepository, paths: Sequence[str]) -> None:
        self._person = person
        self._known = person.attributes(paths, (*_CONVERTING, "filter"))
        self._converts_all = person.setting("core.autocrlf").lower() in {"true", "input", "1"}
        root = person.root
        self._git = root.own_git(
            persons_env(root.environ), ("core.safecrlf=false",), writes_here=True
        )
        self._stored: dict[tuple[str, str], str] = {}

    def filter_of(self, path: str) -> str | None:
        """Return the name of the filter that converts a file; None where none does."""
        name = self._known.get(path, {}).get("filter", "unset")
        return None if name in _NONE else name

    def stored(self, path: str, entry: Entry | None) -> Entry | None:
        """Return an entry as the repository stores it."""
        if entry is None or not entry.blob or entry.mode == LINK or not self._converts(path):
            return entry
        known = path, entry.blob
        if known not in self._stored:
            data = self._person.root.shadow.run("cat-file", "blob", entry.blob)
            hashing = ("hash-object", "-w", "--stdin", "--path", path)
            self._stored[known] = self._git.word(*hashing, stdin=data)
        return replace(entry, blob=self._stored[known])

    def _converts(self, path: str) -> bool:
        known = self._known.get(path, {})
        given = {name: known[name] for name in _CONVERTING if name in known}
        return bool(set(given.values()) - _NONE) or (
            self._converts_all and known.get("text") not in _NONE
        )
