"""What would make a restore lose something, or stop halfway: looked for before it begins."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from prsm_core import PrsmError
from prsm_files.shadow.files import status
from prsm_files.shadow.git import ContentGoneError
from prsm_files.shadow.place import find_repository

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from prsm_files.shadow.records import Change, Plan
    from prsm_files.shadow.root import Root

MOST_IN_THE_WAY = 10_000  # files that git ignores, where a file of the snapshot would be
SPARE = 2**20  # bytes that stay free
_NAMED = 5


class HinderedError(PrsmError):
    """A restore was not begun; nothing has changed."""

    code = "restore_hindered"


def check_root(is_there: bool, path: str) -> None:
    """Raise HinderedError for a root that is no folder, or one that a link leads to."""
    if not is_there:
        raise HinderedError(
            f"there is no folder {path}: it is gone, or a link is in its place",
            hint=f"look at it: ls -ld {path}",
        )


def in_the_way(root: Root, changes: Sequence[Change], tops: Iterable[str] = ()) -> list[str]:
    """Return files that the tree of the moment lacks and a restore would overwrite.

    They are where a file is to be, or the folder of one of the `tops`, which are repositories. git
    ignores them, or they were left out. Raises HinderedError for what cannot be stored.
    """
    goes = {change.path for change in changes if change.old}
    found: dict[str, None] = {}
    for change in changes:
        if not change.old:
            for path in _obstacles(root, change.path, goes):
                found[path] = None
    for top in tops:  # of one that is no repository now nobody else keeps what is in it
        is_file = find_repository(root.folder / top) is None
        for path in _obstacles(root, top, goes, is_file=is_file):
            found[path] = None
    if len(found) > MOST_IN_THE_WAY:
        raise HinderedError(
            f"{len(found)} ignored files are in the way of the snapshot's, such as {_some(found)}",
            hint="move them away, then restore once more",
        )
    return list(found)


def _obstacles(root: Root, path: str, goes: set[str], *, is_file: bool = True) -> Iterable[str]:
    parts = path.split("/")
    for count in range(1, len(parts) + 1):
        name = "/".join(parts[:count])
        found = status(f"{root.folder}/{name}")
        if found is None or name in goes:
            return
        kind = found.st_mode
        if stat.S_ISDIR(kind):
            if count == len(parts) and is_file:
                yield from _files(root.folder, name, goes)
            continue
        if not (stat.S_ISREG(kind) or stat.S_ISLNK(kind)):
            raise HinderedError(
                f"{name} is a pipe, a socket or a device, where the snapshot has a file",
                hint="move it away, then restore once more",
            )
        yield name
        return


def _files(top: Path, name: str, goes: set[str]) -> Iterable[str]:
    for folder, _, files in os.walk(top / name):
        if find_repository(Path(folder)) is not None:
            raise HinderedError(
                f"{folder} is a repository, where the snapshot has a file",
                hint="move it away, then restore once more",
            )
        below = os.path.relpath(folder, top)
        yield from (path for file in files if (path := f"{below}/{file}") not in goes)


def check_stored(forced: Sequence[str], skipped: Iterable[str]) -> None:
    """Raise HinderedError where something in the way could not be stored."""
    lost = sorted(set(forced) & set(skipped))
    if lost:
        raise HinderedError(
            f"the restore would overwrite what no snapshot can hold: {_some(lost)}",
            hint="it is too large, or cannot be read: move it away, then restore once more",
        )


def check_plan(root_of: Callable[[str], Root], plan: Plan) -> None:
    """Raise HinderedError where a restore would stop halfway."""
    for one in plan.roots:
        root = root_of(one.path)
        check_writable(root, one.changes)
        check_room(root, check_content(root, one.changes))


def check_content(root: Root, changes: Sequence[Change]) -> int:
    """Return how many bytes a root's restore writes.

    Raises ContentGoneError where it is not there, which an eager `git gc` can bring about.
    """
    wanted = {change.new: change.path for change in changes if change.new}
    sizes = root.sizes(list(wanted))
    gone = [path for blob, path in wanted.items() if sizes.get(blob) is None]
    if gone:
        raise ContentGoneError(f"the content of {_some(gone)}")
    return sum(sizes[change.new] or 0 for change in changes if change.new)


def check_room(root: Root, size: int) -> None:
    """Raise HinderedError where the disk has no room for what is written."""
    free = shutil.disk_usage(root.folder).free
    if size + SPARE > free:
        raise HinderedError(
            f"the disk of {root.folder} has {free} bytes free, and {size} are to be written",
            hint="make room, then restore once more",
        )


def check_writable(root: Root, changes: Sequence[Change]) -> None:
    """Raise HinderedError for folders in which nothing can be changed."""
    known: dict[Path, bool] = {}
    for change in changes:
        folder = (root.folder / change.path).parent
        while folder != root.folder and not folder.is_dir():
            folder = folder.parent
        known.setdefault(folder, os.access(folder, os.W_OK | os.X_OK))
    closed = [str(folder) for folder, is_open in known.items() if not is_open]
    if closed:
        raise HinderedError(
            f"files in {_some(closed)} are to be changed, and it is read-only",
            hint="allow it with `chmod u+w`, then restore once more",
        )


def check_index(root: Root) -> None:
    """Raise HinderedError while a program of the person works on the index."""
    if root.repository is not None and root.repository.index_lock.exists():
        lock = root.repository.index_lock
        raise HinderedError(
            f"git is at work in {root.folder}: there is {lock}",
            hint="let it finish; if no git runs there, delete that file",
        )


def _some(names: Iterable[str]) -> str:
    all_ = list(names)
    more = f" and {len(all_) - _NAMED} more" if len(all_) > _NAMED else ""
    return ", ".join(all_[:_NAMED]) + more
