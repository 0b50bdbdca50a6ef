"""A person's index: copied with all that it names, and put back whole."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct

from prsm_core import PrsmError
from prsm_files.shadow.files import put_json, read_json
from prsm_files.shadow.git import GitFailedError
from prsm_files.shadow.records import Staging

if TYPE_CHECKING:
    from pathlib import Path

    from prsm_files.shadow.git import GitDir
    from prsm_files.shadow.place import Repository


class StagingError(PrsmError):
    """The staging area could not be put back; files are another matter."""

    code = "staging"


class _Known(Struct, frozen=True):
    """What an index looked like when it was copied, and what became of it."""

    stamp: tuple[int, ...]
    staging: Staging


class StagingKeeper:
    """Copies the index of one repository into a shadow, and back."""

    def __init__(self, shadow: GitDir, person: GitDir, repository: Repository) -> None:
        self._shadow = shadow
        self._person = person
        self._index = repository.index
        self._lock = repository.index_lock
        self._own = repository.index.with_name("index.prsm")  # until it is the index
        self._memory = _memory(shadow)

    def copy(self) -> Staging | None:
        """Return the index as it is now; None where there is none. Raises GitFailedError."""
        known = read_json(self._memory, _Known)
        try:
            stamp = _stamp(self._index)
        except FileNotFoundError:
            return None
        if known is not None and known.stamp == stamp:
            return known.staging
        copy = self._shadow.path / "index.copy"
        try:
            shutil.copy2(self._index, copy)
            staging = self._keep(copy, stamp[0])
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
        self._free_own_lock()
        if self._known_blob() == staging.blob:
            return
        data = self._shadow.blob(staging.blob)
        try:
            self._write(data, staging.mtime_ns)
            os.link(self._own, self._lock)  # by which a lock that a dead process left is known
            self._own.replace(self._index)
        except FileExistsError as error:
            self._own.unlink(missing_ok=True)
            raise StagingError(
                f"the staging area was not put back: {self._lock} is held",
                hint="let the git command that runs finish; if there is none, delete that file",
            ) from error
        except OSError as error:
            self._free_own_lock()
            raise StagingError(
                f"the staging area was not put back: {self._index}: {error.strerror}",
                hint="make room on the disk, or allow writing there, and restore once more",
            ) from error
        self._lock.unlink()

    def _write(self, data: bytes, mtime_ns: int) -> None:
        descriptor = os.open(self._own, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.utime(self._own, ns=(mtime_ns, mtime_ns))

    def _free_own_lock(self) -> None:
        """Free the index of what a restore that was cut off has left; git's own lock stays."""
        for one in (self._own, self._index):
            with suppress(FileNotFoundError):
                if self._lock.samefile(one):
                    self._lock.unlink()
        self._own.unlink(missing_ok=True)

    def _known_blob(self) -> str | None:
        """Return what the index is, if it is still as it was copied last."""
        known = read_json(self._memory, _Known)
        try:
            is_known = known is not None and known.stamp == _stamp(self._index)
        except FileNotFoundError:
            return None
        return known.staging.blob if known is not None and is_known else None


def forget_copy(shadow: GitDir) -> None:
    """Know no copy of an index: what it was stored as may be there no more."""
    _memory(shadow).unlink(missing_ok=True)


def _memory(shadow: GitDir) -> Path:
    return shadow.path / "staging.json"


def _stamp(file: Path) -> tuple[int, ...]:
    found = file.stat()
    return (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)
