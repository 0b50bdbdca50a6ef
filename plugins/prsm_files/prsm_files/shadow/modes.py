"""Permissions that git does not keep: of files that have others than most have.

git looks at a file again if its times differ by a second. What was changed in the second in which
it was looked at is young, and looked at here once more.
"""

from __future__ import annotations

import json
import stat
import time
from collections import Counter
from typing import TYPE_CHECKING

from prsm_files.shadow.files import put, put_json, read_json, status_if_any
from prsm_files.shadow.place import RealFolders

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

_USUAL = (0o644, 0o755)
_YOUNG_SECONDS = 2.0


class Modes:
    """The permissions of a root's files: those that are usual, and by path those that are not."""

    def __init__(
        self, usual: tuple[int, int] = _USUAL, others: Mapping[str, int] | None = None
    ) -> None:
        self._usual = usual  # of files, and of those that may be executed
        self._others = dict(others or {})

    @classmethod
    def look(cls, folder: Path, paths: Iterable[str]) -> Modes:
        """Look at all files of a root."""
        there = RealFolders(folder)
        found = {path: mode for path in paths if (mode := there.mode_of(path)) is not None}
        plain = Counter(mode for mode in found.values() if not mode & stat.S_IXUSR)
        programs = Counter(mode for mode in found.values() if mode & stat.S_IXUSR)
        usual = (_most(plain, _USUAL[0]), _most(programs, _USUAL[1]))
        return cls(usual, {path: mode for path, mode in found.items() if mode not in usual})

    @classmethod
    def read(cls, data: bytes) -> Modes:
        """Return what `to_bytes` wrote. Raises ValueError."""
        plain, programs, others = json.loads(data)
        return cls((plain, programs), others)

    def to_bytes(self) -> bytes:
        """Return them as JSON."""
        return json.dumps([*self._usual, dict(sorted(self._others.items()))]).encode("ascii")

    def note(self, path: str, mode: int | None) -> bool:
        """Keep the permissions of a file, None for what is none; return whether that is new."""
        before = self._others.get(path)
        if mode is None or mode in self._usual:
            self._others.pop(path, None)
            return before is not None
        self._others[path] = mode
        return before != mode

    def of(self, path: str, *, is_program: bool) -> int:
        """Return the permissions of a file."""
        return self._others.get(path, self._usual[is_program])

    def differing(self, other: Modes) -> set[str]:
        """Return the paths that are unusual in one and not alike in both."""
        mine, theirs = self._others, other._others
        return {path for path in mine.keys() | theirs.keys() if mine.get(path) != theirs.get(path)}


class ModesKeeper:
    """Owns what is known of the permissions of a root's files, from one capture to the next."""

    def __init__(self, place: Path, folder: Path) -> None:
        self.file = place / "modes.json"
        self._young = place / "young.json"
        self._folder = folder

    def known(self) -> Modes | None:
        """Return what is known of the files at the last look; None: nothing that can be read."""
        try:
            return Modes.read(self.file.read_bytes())
        except (FileNotFoundError, ValueError):
            return None

    def forget(self) -> None:
        """Know nothing."""
        self.file.unlink(missing_ok=True)
        self._young.unlink(missing_ok=True)

    def look(self, changed: Sequence[str], all_: Callable[[], Sequence[str]]) -> None:
        """Look at files that have changed, and may have unnoticed; at all if nothing is known."""
        modes = self.known()
        young = read_json(self._young, list[str]) if self._young.exists() else []
        if modes is None or young is None:
            paths = all_()
            self._write(Modes.look(self._folder, paths), paths)
        elif paths := list(dict.fromkeys((*changed, *young))):
            there = RealFolders(self._folder)
            is_new = [modes.note(path, there.mode_of(path)) for path in paths]
            self._write(modes if any(is_new) else None, paths)

    def adopt(self, modes: Modes, written: Sequence[str]) -> None:
        """Know the permissions that a restore has given to the files it has written."""
        young = read_json(self._young, list[str]) or []
        self._write(modes, list(dict.fromkeys((*written, *young))))

    def _write(self, modes: Modes | None, looked_at: Sequence[str]) -> None:
        if modes is not None:
            put(self.file, modes.to_bytes())
        limit = time.time() - _YOUNG_SECONDS
        there = ((path, status_if_any(f"{self._folder}/{path}")) for path in looked_at)
        put_json(self._young, [path for path, found in there if found and found.st_ctime > limit])


def _most(counted: Counter[int], usual: int) -> int:
    return counted.most_common(1)[0][0] if counted else usual
