"""The person's index, replaced under git's own lock.

The lock is made whole, as a second name of a file that is written already: whoever finds it knows
by that file whose it is. So one that a process which has died has left is told from a living git's.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from prsm_core import ConfigError
from prsm_files.shadow.files import sync

if TYPE_CHECKING:
    from prsm_files.shadow.place import Repository

NAME = "index.prsm"

Stamp = tuple[int, ...]


def stamp_of(index: Path) -> Stamp:
    """Return what an index looks like; () for none."""
    try:
        found = index.stat()
    except FileNotFoundError:
        return ()
    return (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)


class IndexLock:
    """The lock of one repository's index, and what the index is to become."""

    def __init__(self, where: Repository) -> None:
        self._index = where.index
        self._lock = where.index_lock
        self._new = where.git_dir / NAME

    @property
    def is_ours(self) -> bool:
        """Whether the lock is there, and ours."""
        try:
            return os.path.samefile(self._new, self._lock)  # noqa: PTH121 - either may be gone
        except FileNotFoundError:
            return False

    def check_free(self) -> None:
        """Raise ConfigError while a git of the person's holds the lock."""
        if self._lock.exists() and not self.is_ours:
            raise _held(self._lock)

    def take(self, data: bytes) -> None:
        """Take the lock, with what the index is to become. Raises ConfigError, and OSError."""
        self._new.unlink(missing_ok=True)
        descriptor = os.open(self._new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)
            if self._index.exists():
                os.fchmod(descriptor, self._index.stat().st_mode & 0o777)
        try:
            os.link(self._new, self._lock)
        except FileExistsError as error:
            self._new.unlink()
            raise _held(self._lock) from error

    def put(self) -> None:
        """Let the index be what it is to become, and free the lock."""
        self._lock.replace(self._index)
        self._new.unlink()
        sync(self._index.parent)

    def release(self) -> None:
        """Free the lock, if it is ours; the index stays."""
        if self.is_ours:
            self._lock.unlink()
        self._new.unlink(missing_ok=True)

    def end(self, stamp: Stamp, *, is_done: bool) -> bool:
        """End what a process that has died left; whether the index is as it should be then.

        `stamp` is of the index before. Where somebody has deleted the lock, and git has gone on
        with the old index, it stays as it is.
        """
        if not is_done or not self._new.exists():
            self.release()
            return True
        if not self.is_ours:
            if self._index.exists() and self._new.samefile(self._index):
                self._new.unlink()
                return True
            if stamp_of(self._index) != stamp:
                self._new.unlink()
                return False
            self.take(Path(self._new).read_bytes())
        self.put()
        return True


def _held(lock: Path) -> ConfigError:
    return ConfigError(
        f"git is at work in the repository: {lock} is there",
        hint="let the git command that runs finish; if there is none, delete that file",
        code="index_locked",
    )
