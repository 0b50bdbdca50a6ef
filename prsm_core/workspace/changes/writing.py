"""Writes one file that a change is taken back from: it is as before, or as after, never between."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from prsm_core.domain.record import Record
from prsm_core.workspace.changes.merging import find_side
from prsm_core.workspace.changes.records import LINK, PROGRAM
from prsm_core.workspace.shadow.files import status
from prsm_core.workspace.shadow.modes import mode_of

if TYPE_CHECKING:
    from prsm_core.workspace.changes.records import Entry
    from prsm_core.workspace.shadow.root import Root

_OWNERS = 0o600  # while it is written
_READERS = 0o444


class Operation(Record, frozen=True):
    """What is to be written at a path of a root, and what stands there."""

    root: str
    path: str  # in it
    old: Entry | None
    new: Entry | None
    ids: tuple[str, ...]  # of the changes that it takes back


def write(root: Root, one: Operation, beside: str, keeps: str = "") -> bool:
    """Let a path be as is wanted, if it is still as it was; whether it is.

    What takes its place is first made under the name `beside` in its folder; one that is there
    already was left by a process that died. Folders that are empty then go, but not the one that
    it `keeps`, nor those above. Raises OSError, and GitFailedError.
    """
    place = Path(root.folder, one.path)
    new = place.parent / beside
    with suppress(FileNotFoundError, NotADirectoryError):
        new.unlink()
    if one.new is None and _makes_room(root.folder, one.path):
        return True
    side = find_side(root, one.path)
    if side.why or side.entry not in (one.old, one.new):
        return False
    if one.new is None:
        place.unlink(missing_ok=True)
        _drop_empty(Path(root.folder, keeps), place.parent)
        return True
    if side.entry != one.new:
        data = root.shadow.run("cat-file", "blob", one.new.blob)
        _make_folder(place.parent)
        try:
            _make(new, data, one.new, _mode(root, one.path, one.new))
            new.replace(place)
        except OSError:  # such as a full disk
            new.unlink(missing_ok=True)
            raise
    return True


def _makes_room(top: Path, path: str) -> bool:
    """Return whether a folder is where a file was to go, or no folder where its own was.

    So it is where something else has taken the place since, of the same act that was cut off.
    """
    parts = path.split("/")
    above = (status(f"{top}/{'/'.join(parts[:count])}") for count in range(1, len(parts)))
    if any(one is not None and not stat.S_ISDIR(one.st_mode) for one in above):
        return True
    found = status(f"{top}/{path}")
    return found is not None and stat.S_ISDIR(found.st_mode)


def _make(file: Path, data: bytes, entry: Entry, mode: int) -> None:
    if entry.mode == LINK:
        file.symlink_to(os.fsdecode(data))
        return
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNERS)
    with os.fdopen(descriptor, "wb") as new:
        new.write(data)
        new.flush()
        os.fsync(descriptor)
        os.fchmod(descriptor, mode)


def _mode(root: Root, path: str, entry: Entry) -> int:
    """Return the permissions of the file that is there, or that was: the umask here is private."""
    is_program = entry.mode == PROGRAM
    mode = mode_of(f"{root.folder}/{path}")
    if mode is None:
        mode = root.mode_known(path, is_program=is_program)
    runs = (mode & _READERS) >> 2  # whoever reads it may run it
    return mode | runs if is_program else mode & ~0o111


def _make_folder(folder: Path) -> None:
    """Make a folder, and those above it, for whom the one is that they are made in."""
    if not folder.is_dir():
        _make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        folder.chmod(stat.S_IMODE(folder.parent.stat().st_mode))


def _drop_empty(top: Path, folder: Path) -> None:
    """Remove folders that held nothing else: git does not know empty ones."""
    while folder != top:
        try:
            folder.rmdir()
        except OSError:  # something is in it, or it is not ours to remove
            return
        folder = folder.parent
