"""Stand-ins: empty folders where a sandboxed command must not create what others obey.

A name that is not there cannot be mounted over, and what is not mounted over can be created. So
for as long as commands run an empty folder stands at each such name: git shows none, no program
takes one for its settings, and rmdir takes it away only as long as it is empty. Where a region is
a file that nobody has written yet, an empty file stands.

Engines in one workspace share a record of what was made. Whoever runs commands holds it locked
together with the others; whoever is alone at the end removes what it lists, and so does the next
one after an engine that died.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import stat
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from prsm_core.kit import make_private

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# Nobody makes folders with the sticky bit by chance: a record of a crash is not trusted alone.
MODE = 0o1755
FILE_MODE = 0o1644


class StandIns:
    """Owns the stand-ins of one workspace that this engine made or took over."""

    def __init__(self, state_dir: Path, workspace: Path) -> None:
        name = hashlib.sha256(os.fsencode(workspace)).hexdigest()[:24]
        self._record = state_dir / "stand-ins" / name
        self._users = 0
        self._descriptor: int | None = None

    @contextmanager
    def held(self, paths: Iterable[Path], files: Iterable[Path] = ()) -> Iterator[None]:
        """Have every one of `paths`, and of `files`, exist inside.

        What was missing goes with its last user, unless somebody has put something there.
        """
        self._enter()
        try:
            for path in files:
                self._make(path, is_file=True)
            for path in paths:
                self._make(path)
            yield
        finally:
            self._leave()

    def recover(self) -> None:
        """Remove what an engine that died has left, unless another one uses it."""
        if self._users == 0 and self._record.exists():
            with self.held(()):
                pass

    def _enter(self) -> None:
        if self._descriptor is None:
            make_private(self._record.parent)
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._descriptor = os.open(self._record, flags, 0o600)
            fcntl.flock(self._descriptor, fcntl.LOCK_SH)  # an exclusive one is held for an instant
        self._users += 1

    def _leave(self) -> None:
        self._users -= 1
        if self._users or self._descriptor is None:
            return
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pass  # others run commands: the last of them clears up
        else:
            self._clear(self._descriptor)
        finally:
            os.close(self._descriptor)
            self._descriptor = None

    def _make(self, path: Path, *, is_file: bool = False) -> None:
        if self._descriptor is None or os.path.lexists(path):
            return
        # Noted first: a crash between the two leaves a note of nothing, not a folder unnoted.
        os.write(self._descriptor, json.dumps(os.fspath(path)).encode() + b"\n")
        # Where this process may not create it, nor may a command.
        with contextlib.suppress(FileExistsError, PermissionError, FileNotFoundError):
            if is_file:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch(exist_ok=False)
            else:
                path.mkdir(mode=MODE)
            if not _is_stand_in(path):  # the umask and the file system have their say
                path.chmod(FILE_MODE if is_file else MODE)

    def _clear(self, descriptor: int) -> None:
        for path in _noted(descriptor):
            if _is_stand_in(path):
                with contextlib.suppress(OSError):  # somebody has put something there meanwhile
                    _remove(path)
        os.ftruncate(descriptor, 0)


def _noted(descriptor: int) -> Iterator[Path]:
    size = os.fstat(descriptor).st_size
    for line in reversed(os.pread(descriptor, size, 0).splitlines()):
        with contextlib.suppress(ValueError):  # a line that was cut off
            yield Path(json.loads(line))


def _is_stand_in(path: Path) -> bool:
    try:
        mode = path.lstat().st_mode
    except OSError:
        return False
    return (stat.S_ISDIR(mode) or stat.S_ISREG(mode)) and bool(mode & stat.S_ISVTX)


def _remove(path: Path) -> None:
    """Remove a stand-in; a file in which somebody has written is theirs, and an ordinary one."""
    status = path.lstat()
    if stat.S_ISDIR(status.st_mode):
        path.rmdir()
    elif status.st_size:
        path.chmod(stat.S_IMODE(status.st_mode) & ~stat.S_ISVTX)
    else:
        path.unlink()
