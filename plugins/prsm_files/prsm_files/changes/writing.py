"""Writes one file of an act: it is as before, or as after, never between.

The new file is prepared where git never takes it in, if a rename reaches the path from there. Else
it lies beside the path, and a note names it, by which the next command removes what a death left.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from prsm_files.changes.merging import find_side
from prsm_files.shadow.acts import Operation
from prsm_files.shadow.files import folders_above, mode_of, stamp_of, status, write_new
from prsm_files.shadow.modes import Modes
from prsm_files.shadow.records import LINK, PROGRAM, Entry
from prsm_files.shadow.whereabouts import stray_notes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from prsm_files.shadow.root import Root

_READERS = 0o444
_LEAD, _END = ".prsm-", ".new"
# What says that a file cannot be prepared in one place, and may be in another.
_ELSEWHERE = frozenset({errno.EXDEV, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT})


def planned(
    root: Root, path: str, old: Entry | None, new: Entry | None, ids: tuple[str, ...] = ()
) -> Operation:
    """Return an operation, with what a file is beside its content."""
    folders = () if new is not None else tuple(_folders_above(root.folder, path))
    bits = mode_of(f"{root.folder}/{path}")
    return Operation(root.path, path, old, new, ids=ids, before_bits=bits, folders=folders)


def _folders_above(top: Path, path: str) -> Iterator[tuple[str, int]]:
    for folder in folders_above(path):
        found = status(f"{top}/{folder}")
        if found is not None and stat.S_ISDIR(found.st_mode):
            yield folder, stat.S_IMODE(found.st_mode)


def write(root: Root, one: Operation, name: str, keeps: str = "") -> bool:
    """Let a path be as is wanted, if it is still as it was; return whether it is.

    Folders that are empty then go, but not the one that it `keeps`, nor those above. Raises
    OSError, and GitFailedError.
    """
    place = Path(root.folder, one.path)
    if one.after is None and _makes_room(root.folder, one.path):
        return True
    stamp = stamp_of(str(place))
    side = find_side(root, one.path)
    if side.why or side.entry not in (one.before, one.after):
        return False
    if one.after is None:
        if stamp_of(str(place)) != stamp:
            return False
        place.unlink(missing_ok=True)
        _drop_empty(Path(root.folder, keeps), place.parent)
        return True
    if side.entry == one.after:
        return True
    data = root.shadow.blob(one.after.blob)
    _make_folder(root.folder, place.parent, dict(one.folders))
    wanted, mode = one.after, _mode(root, one, one.after)

    def make(new: Path) -> None:
        if wanted.mode == LINK:
            new.symlink_to(os.fsdecode(data))
        else:
            write_new(new, data, mode)
        if stamp_of(str(place)) != stamp:  # as late as can be
            raise _ChangedError

    try:
        put_in_place(root, place, name, make)
    except _ChangedError:
        return False
    return True


def _drop_empty(top: Path, folder: Path) -> None:
    # It ends at a folder that something is in, or that is not ours to remove.
    with suppress(OSError):
        while folder != top:
            folder.rmdir()
            folder = folder.parent


class _ChangedError(Exception):
    """Somebody has changed the file since it was looked at."""


def _makes_room(top: Path, path: str) -> bool:
    """Return whether something else took a file's place since, in an act that was cut off."""
    above = (status(f"{top}/{folder}") for folder in folders_above(path))
    if any(one is not None and not stat.S_ISDIR(one.st_mode) for one in above):
        return True
    found = status(f"{top}/{path}")
    return found is not None and stat.S_ISDIR(found.st_mode)


def _mode(root: Root, one: Operation, entry: Entry) -> int:
    """Return the permissions of the file that is there, or that was: the umask here is private."""
    if one.after_bits is not None:
        return one.after_bits
    is_program = entry.mode == PROGRAM
    mode = mode_of(f"{root.folder}/{one.path}")
    if mode is None:
        mode = (root.modes_kept.known() or Modes()).of(one.path, is_program=is_program)
    runs = (mode & _READERS) >> 2  # whoever reads it may run it
    return mode | runs if is_program else mode & ~0o111


def _make_folder(top: Path, folder: Path, known: Mapping[str, int]) -> None:
    if not folder.is_dir():
        _make_folder(top, folder.parent, known)
        folder.mkdir(exist_ok=True)
        usual = stat.S_IMODE(folder.parent.stat().st_mode)
        folder.chmod(known.get(str(folder.relative_to(top)), usual))


def put_in_place(root: Root, path: Path, name: str, make: Callable[[Path], None]) -> None:
    """Let a file that `make` writes replace a path at once. What raises leaves it as it was."""
    notes, note_name = stray_notes(root.place.parents[1], root.place.name)
    note = notes / note_name
    for folder, is_last in _folders(root, path.parent):
        new = folder / f"{_LEAD}{name}{_END}"
        is_ours = folder == root.place
        try:
            if not is_ours:
                notes.mkdir(mode=0o700, exist_ok=True)
                note.write_bytes(os.fsencode(new))
            new.unlink(missing_ok=True)
            make(new)
            _share(new, path)
            new.replace(path)
        except BaseException as error:
            with suppress(OSError):
                new.unlink(missing_ok=True)
            if is_last or not isinstance(error, OSError) or error.errno not in _ELSEWHERE:
                raise
        else:
            return
        finally:
            if not is_ours:
                with suppress(OSError):
                    note.unlink(missing_ok=True)


def _folders(root: Root, beside: Path) -> Iterator[tuple[Path, bool]]:
    device = beside.stat().st_dev
    hidden = [root.place]
    if root.repository is not None and not root.has_foreign_repository:
        hidden.append(root.repository.git_dir)
    for folder in hidden:
        is_seen = folder.is_relative_to(root.top) and ".git" not in folder.parts
        with suppress(OSError):
            if not is_seen and folder.stat().st_dev == device:
                yield folder, False
    yield beside, True


def _share(new: Path, path: Path) -> None:
    parent = path.parent.stat()
    group = parent.st_gid if parent.st_mode & 0o2000 else None
    with suppress(FileNotFoundError):
        group = os.lstat(path).st_gid
    if group is not None and group != os.lstat(new).st_gid:
        with suppress(PermissionError):  # of a group that the person is not in
            os.chown(new, -1, group, follow_symlinks=False)


def sweep(place: Path) -> None:
    """Remove what a death left beside files, by a shadow's folder, unless somebody is at work."""
    folder, pattern = stray_notes(place, "*")
    notes = list(folder.glob(pattern))
    if not notes:
        return
    with suppress(OSError), (place / "lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for note in notes:
            stray = Path(os.fsdecode(note.read_bytes()))
            if stray.name.startswith(_LEAD) and stray.name.endswith(_END):
                stray.unlink(missing_ok=True)
            note.unlink()
