"""What a command in the sandbox cannot see: secrets, PRSM's own folders, sockets of others."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISSOCK
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

MAX_FOLDERS = 1_500  # of a workspace that are looked at, the shallow ones first
MAX_FOUND = 150  # secrets and protected names below its root that are covered
MAX_SOCKETS = 200
SETTLED_NS = 10**9
_NOT_ENTERED = frozenset(
    (".git", ".hg", ".svn", ".jj", "node_modules", "__pycache__", ".tox", ".nox", ".direnv")
)
_SOCKETS = Path("/proc/net/unix")


def foreign_sockets() -> Iterator[str]:
    """Yield the paths of the unix sockets that processes of this network namespace hold open.

    None of them is the command's: it has not started yet. They come each once.
    """
    seen: set[str] = set()
    try:
        lines = _SOCKETS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()[1:]
    except OSError:
        return
    for line in lines:
        path = line[line.find(" /") + 1 :] if " /" in line else ""
        if path and path not in seen and len(seen) < MAX_SOCKETS and _is_socket(path):
            seen.add(path)
            yield path


def _is_socket(path: str) -> bool:
    try:
        return S_ISSOCK(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return False


@dataclass(slots=True)
class _Folder:
    """What was found in one folder; what it holds is known as long as its time is the same."""

    changed: int
    below: tuple[str, ...] = ()
    secret: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()


@dataclass(slots=True)
class WorkspaceIndex:
    """Secrets and protected names in the tree of a workspace, kept from command to command.

    It enters no folder of a version control, of packages or of a virtual environment, and gives
    up after MAX_FOLDERS; the shallow ones come first. A folder is read again when its time of
    change is another one.
    """

    root: str
    is_secret: Callable[[str], bool]
    protected_names: frozenset[str]
    _folders: dict[str, _Folder] = field(default_factory=dict)

    def look(self) -> tuple[list[str], list[str]]:
        """Return the paths of what is secret, and of what is protected; both below the root."""
        secret: list[str] = []
        protected: list[str] = []
        kept: dict[str, _Folder] = {}
        waiting = [self.root]
        for path in waiting:  # it grows meanwhile: the breadth comes first
            if len(kept) >= MAX_FOLDERS:
                break
            folder = self._read(path)
            if folder is None:
                continue
            kept[path] = folder
            secret += folder.secret
            protected += folder.protected
            waiting += folder.below
        self._folders = kept
        return secret[:MAX_FOUND], protected[:MAX_FOUND]

    def _read(self, path: str) -> _Folder | None:
        try:
            changed = os.stat(path).st_mtime_ns  # noqa: PTH116 - called a thousand times
            known = self._folders.get(path)
            if known is not None and known.changed == changed:
                return known
            # One that has just changed may change again within the same tick of its clock.
            settled = time.time_ns() - changed > SETTLED_NS
            with os.scandir(path) as entries:
                return self._sorted_out(changed if settled else -1, list(entries))
        except OSError:
            return None

    def _sorted_out(self, changed: int, entries: list[os.DirEntry[str]]) -> _Folder:
        below: list[str] = []
        secret: list[str] = []
        protected: list[str] = []
        for entry in entries:
            name = entry.name
            is_folder = entry.is_dir(follow_symlinks=False)
            if self.is_secret(name) and not (is_folder and _is_environment(entry.path)):
                secret.append(entry.path)
            elif name.casefold() in self.protected_names:
                protected.append(entry.path)
            elif is_folder and name not in _NOT_ENTERED and not _is_environment(entry.path):
                below.append(entry.path)
        return _Folder(changed, tuple(below), tuple(secret), tuple(protected))


def _is_environment(path: str) -> bool:
    return os.path.exists(f"{path}/pyvenv.cfg")  # noqa: PTH110 - called a thousand times


def is_within(path: str, folder: str) -> bool:
    """Return whether a path is a folder or below it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def is_below_any(path: str, folders: Iterable[str]) -> bool:
    """Return whether a path is one of some folders or below one."""
    return any(is_within(path, folder) for folder in folders)
