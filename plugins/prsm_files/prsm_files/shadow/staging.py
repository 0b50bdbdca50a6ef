"""A person's index: copied with all that it names, and put back whole."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct

from prsm_core import ConfigError, PrsmError
from prsm_files.shadow.files import put_json, read_json, stamp_of, sync, write_new
from prsm_files.shadow.git import GitFailedError
from prsm_files.shadow.records import Staging

if TYPE_CHECKING:
    from pathlib import Path

    from prsm_files.shadow.files import Stamp
    from prsm_files.shadow.git import GitDir
    from prsm_files.shadow.place import Repository


class StagingError(PrsmError):
    """The staging area could not be put back; files are another matter."""

    code = "staging"


def index_stamp(index: Path) -> Stamp:
    """Return what an index looks like, where a link leads, too; () for none."""
    return stamp_of(os.path.realpath(index)) or ()


class IndexLock:
    """The lock of one repository's index, and what the index is to become."""

    def __init__(self, where: Repository) -> None:
        self._index = where.index
        self._lock = where.index_lock
        self._new = where.git_dir / "index.prsm"

    @property
    def is_ours(self) -> bool:
        """Whether the lock is there, and was left by PRSM: it is another name of a file of ours."""
        for one in (self._new, self._index):
            with suppress(FileNotFoundError):
                if self._lock.samefile(one):
                    return True
        return False

    def check_free(self) -> None:
        """Raise ConfigError while a git of the person's holds the lock."""
        if self._lock.exists() and not self.is_ours:
            raise _held(self._lock)

    def take(self, data: bytes, mtime_ns: int | None = None) -> None:
        """Take the lock, with what the index is to become. Raises ConfigError, and OSError."""
        self._new.unlink(missing_ok=True)
        mode = self._index.stat().st_mode & 0o777 if self._index.exists() else None
        write_new(self._new, data, mode)
        if mtime_ns is not None:
            os.utime(self._new, ns=(mtime_ns, mtime_ns))
        try:
            # By this second name a lock that a dead process left is known.
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
        """End what a dead process left; False where git has gone on with the index of `stamp`."""
        if not is_done or not self._new.exists():
            self.release()
            return True
        if not self.is_ours:
            if self._index.exists() and self._new.samefile(self._index):
                self._new.unlink()
                return True
            if index_stamp(self._index) != stamp:
                self._new.unlink()
                return False
            self.take(self._new.read_bytes())
        self.put()
        return True


def _held(lock: Path) -> ConfigError:
    return ConfigError(
        f"git is at work in the repository: {lock} is there",
        hint="let the git command that runs finish; if there is none, delete that file",
        code="index_locked",
    )


class _Known(Struct, frozen=True):
    stamp: tuple[int, ...]
    staging: Staging


class StagingKeeper:
    """Copies the index of one repository into a shadow, and back."""

    def __init__(self, shadow: GitDir, person: GitDir, repository: Repository) -> None:
        self._shadow = shadow
        self._person = person
        self._index = repository.index
        self._lock = IndexLock(repository)
        self._memory = _memory(shadow)

    def copy(self) -> Staging | None:
        """Return the index as it is now; None where there is none. Raises GitFailedError."""
        known = read_json(self._memory, _Known)
        stamp = index_stamp(self._index)
        if not stamp:
            return None
        if known is not None and known.stamp == stamp:
            return known.staging
        copy = self._shadow.path / "index.copy"
        try:
            shutil.copy2(self._index, copy)
            staging = self._keep(copy, stamp[2])
        finally:
            copy.unlink(missing_ok=True)
        put_json(self._memory, _Known(stamp, staging))
        return staging

    def _keep(self, copy: Path, mtime_ns: int) -> Staging:
        # One that lies in two files, of which the other would be gone one day, becomes one.
        self._person.ask("update-index", "--no-split-index", index=copy)
        blob = self._shadow.word("hash-object", "-w", "--no-filters", "--", str(copy))
        made = self._shadow.ask("write-tree", "--missing-ok", index=copy)
        if made.code:
            self._set_unmerged_apart(copy)
            made = self._shadow.ask("write-tree", "--missing-ok", index=copy)
        if made.code:
            raise GitFailedError(("write-tree",), made)
        return Staging(blob, made.out.decode("ascii").strip(), mtime_ns)

    def _set_unmerged_apart(self, copy: Path) -> None:
        """Let a tree be made of an index with conflicts, so that what it names is kept."""
        lines = []
        for entry in self._shadow.run("ls-files", "-u", "-z", index=copy).split(b"\0"):
            head, tab, path = entry.partition(b"\t")
            if tab:
                mode, name, stage = head.split()
                lines.append(b"0 " + b"0" * len(name) + b"\t" + path + b"\0")
                lines.append(
                    mode + b" " + name + b" 0\t.prsm-unmerged/" + stage + b"/" + path + b"\0"
                )
        # What is taken out comes first: taken out later it would take all stages with it.
        lines.sort(key=lambda line: not line.startswith(b"0 "))
        self._shadow.run("update-index", "-z", "--index-info", stdin=b"".join(lines), index=copy)

    def put_back(self, staging: Staging) -> None:
        """Let the index be as it was, whole or not at all. Raises StagingError."""
        self._lock.release()
        known = read_json(self._memory, _Known)
        if known is not None and (known.stamp, known.staging.blob) == (
            index_stamp(self._index),
            staging.blob,
        ):
            return
        try:
            self._lock.take(self._shadow.blob(staging.blob), staging.mtime_ns)
            self._lock.put()
        except ConfigError as error:
            why, hint = error.message, error.hint
            raise StagingError(f"the staging area was not put back: {why}", hint=hint) from error
        except OSError as error:
            self._lock.release()
            raise StagingError(
                f"the staging area was not put back: {self._index}: {error.strerror}",
                hint="make room on the disk, or allow writing there, and restore once more",
            ) from error


def forget_copy(shadow: GitDir) -> None:
    """Know no copy of an index: what it was stored as may be there no more."""
    _memory(shadow).unlink(missing_ok=True)


def _memory(shadow: GitDir) -> Path:
    return shadow.path / "staging.json"
