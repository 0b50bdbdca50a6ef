"""Where a new file is prepared before it takes a path's place, so that git never takes it in.

That is in PRSM's own folder, or in git's directory: the first one that a rename reaches the path
from. Where neither is on the same file system, the new file lies beside the path, and what a death
leaves of it is named in a note, by which the next command of PRSM in that folder removes it.
"""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from prsm_files.shadow.whereabouts import stray_notes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prsm_files.shadow.root import Root

_LEAD, _END = ".prsm-", ".new"
# What says that a file cannot be prepared in one place, and may be in another.
_ELSEWHERE = frozenset({errno.EXDEV, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT})


def put_in_place(root: Root, path: Path, name: str, make: Callable[[Path], None]) -> None:
    """Let a file that `make` writes take the place of a path at once.

    It is called something with `name` meanwhile. Raises OSError, and then the path is as it was.
    """
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
    """Yield where a new file may be prepared, the best first, and whether it is the last one."""
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
    """Give a new file the group of the one it replaces, or that of a folder that hands it down."""
    parent = path.parent.stat()
    group = parent.st_gid if parent.st_mode & 0o2000 else None
    with suppress(FileNotFoundError):
        group = os.lstat(path).st_gid
    if group is not None and group != os.lstat(new).st_gid:
        with suppress(PermissionError):  # of a group that the person is not in
            os.chown(new, -1, group, follow_symlinks=False)


def sweep(place: Path) -> None:
    """Remove what a death has left beside files of a working tree, unless somebody is at work.

    `place` is the folder of its shadow. Nothing is waited for, and no git is run.
    """
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
