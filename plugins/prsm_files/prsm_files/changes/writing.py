"""Writes one file of an act: it is as before, or as after, never between."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from prsm_files.changes.merging import find_side
from prsm_files.changes.records import LINK, PROGRAM, Entry
from prsm_files.shadow.files import status
from prsm_files.shadow.modes import mode_of
from prsm_files.shadow.strays import put_in_place

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prsm_files.shadow.root import Root

_OWNERS = 0o600  # while it is written
_READERS = 0o444


class Operation(Struct, frozen=True):
    """What is to be written at a path of a root, and what stands there.

    Attributes:
        root: The repository, from the top of the folder.
        path: From its top.
        old: What is there.
        new: What is to be there.
        ids: The changes that are decided by it.
        old_bits: The permissions of the file that is there.
        new_bits: Those that the new one gets; None: as those of the old one, or as most have.
        folders: The folders above it and their permissions: what is missing is made so.
    """

    root: str
    path: str
    old: Entry | None
    new: Entry | None
    ids: tuple[str, ...] = ()
    old_bits: int | None = None
    new_bits: int | None = None
    folders: tuple[tuple[str, int], ...] = ()


def planned(
    root: Root, path: str, old: Entry | None, new: Entry | None, ids: tuple[str, ...] = ()
) -> Operation:
    """Return an operation that keeps in mind what a file is beside its content."""
    folders = () if new is not None else tuple(_folders_above(root.folder, path))
    bits = mode_of(f"{root.folder}/{path}")
    return Operation(root.path, path, old, new, ids, old_bits=bits, folders=folders)


def _folders_above(top: Path, path: str) -> Iterator[tuple[str, int]]:
    parts = path.split("/")
    for count in range(1, len(parts)):
        folder = "/".join(parts[:count])
        found = status(f"{top}/{folder}")
        if found is not None and stat.S_ISDIR(found.st_mode):
            yield folder, stat.S_IMODE(found.st_mode)


def write(root: Root, one: Operation, name: str, keeps: str = "") -> bool:
    """Let a path be as is wanted, if it is still as it was; whether it is.

    What takes its place is first made elsewhere, and called something with `name`. Folders that
    are empty then go, but not the one that it `keeps`, nor those above. Raises OSError, and
    GitFailedError.
    """
    place = Path(root.folder, one.path)
    if one.new is None and _makes_room(root.folder, one.path):
        return True
    stamp = _stamp(place)
    side = find_side(root, one.path)
    if side.why or side.entry not in (one.old, one.new):
        return False
    if one.new is None:
        if _stamp(place) != stamp:
            return False
        place.unlink(missing_ok=True)
        _drop_empty(Path(root.folder, keeps), place.parent)
        return True
    if side.entry == one.new:
        return True
    data = root.shadow.run("cat-file", "blob", one.new.blob)
    _make_folder(root.folder, place.parent, dict(one.folders))
    wanted, mode = one.new, _mode(root, one, one.new)

    def make(new: Path) -> None:
        _make(new, data, wanted, mode)
        if _stamp(place) != stamp:  # as late as can be
            raise _ChangedError

    try:
        put_in_place(root, place, name, make)
    except _ChangedError:
        return False
    return True


class _ChangedError(Exception):
    """Somebody has changed the file since it was looked at."""


def _stamp(path: Path) -> tuple[int, ...] | None:
    """Return what is another as soon as somebody writes a file; None: nothing is there."""
    found = status(str(path))
    if found is None:
        return None
    return (found.st_mode, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


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


def _mode(root: Root, one: Operation, entry: Entry) -> int:
    """Return the permissions of the file that is there, or that was: the umask here is private."""
    if one.new_bits is not None:
        return one.new_bits
    is_program = entry.mode == PROGRAM
    mode = mode_of(f"{root.folder}/{one.path}")
    if mode is None:
        mode = root.mode_known(one.path, is_program=is_program)
    runs = (mode & _READERS) >> 2  # whoever reads it may run it
    return mode | runs if is_program else mode & ~0o111


def _make_folder(top: Path, folder: Path, known: Mapping[str, int]) -> None:
    """Make a folder, and those above it, with the permissions that they had.

    One of which these are not known has those of the folder that it is made in.
    """
    if not folder.is_dir():
        _make_folder(top, folder.parent, known)
        folder.mkdir(exist_ok=True)
        usual = stat.S_IMODE(folder.parent.stat().st_mode)
        folder.chmod(known.get(str(folder.relative_to(top)), usual))


def _drop_empty(top: Path, folder: Path) -> None:
    """Remove folders that held nothing else: git does not know empty ones."""
    while folder != top:
        try:
            folder.rmdir()
        except OSError:  # something is in it, or it is not ours to remove
            return
        folder = folder.parent
