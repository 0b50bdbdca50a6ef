"""Regions in the sandbox: the mounts that let an agent write its own, and none that are others'."""

from __future__ import annotations

import os
import stat
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from prsm_core.errors import ProcessError
from prsm_core.policies.within import is_within

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MAX_ENTRIES = 100_000  # of one region or worktree, looked at before each command beside others


def opened(folders: Sequence[str], closed: Sequence[str]) -> Iterator[str]:
    """Yield the options that make an agent's own folders writable, but for those that are closed.

    What is missing is made. Raises ProcessError for one that cannot be.
    """
    for folder in folders:
        _make(folder)
        if not any(is_within(folder, other) for other in closed):
            yield from ("--bind", folder, folder)


def sealed(writable: Sequence[str], closed: Sequence[str]) -> Iterator[str]:
    """Yield the options that make the closed folders read-only inside the writable ones.

    They come behind those that make the others writable. A folder on the way to a closed one
    becomes a mount of its own: it could be renamed otherwise, and another put in its place. A
    closed folder that is missing is made, for what is not there cannot be closed.

    Raises ProcessError for one that cannot be, or that leads elsewhere by now.
    """
    pins: dict[str, None] = {}
    for folder in sorted(closed):
        for area in writable:
            if is_within(folder, area):
                pins.update(dict.fromkeys(_between(area, folder)))
    inside = [folder for folder in closed if any(is_within(folder, area) for area in writable)]
    for folder in inside:
        _make(folder)
    for pin in sorted(pins, key=len):
        yield from ("--bind", pin, pin)
    for folder in sorted(inside, key=len):
        yield from ("--ro-bind", folder, folder)


def is_reached_from_outside(folder: str, *, limit: int = MAX_ENTRIES) -> bool:
    """Return whether a file below a folder has a name outside of it, or may have.

    Mounts close paths, not files: such a file is written by its other name. A folder of more than
    `limit` entries, or one that cannot be read, counts as one that has such a file.
    """
    inside: Counter[tuple[int, int]] = Counter()
    names: dict[tuple[int, int], int] = {}
    try:
        for count, status in enumerate(_statuses(folder)):
            if count >= limit:
                return True
            if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
                file = (status.st_dev, status.st_ino)
                inside[file] += 1
                names[file] = status.st_nlink
    except OSError:
        return os.path.lexists(folder)  # what is not there yet has no files
    return any(inside[file] < links for file, links in names.items())


def _statuses(folder: str) -> Iterator[os.stat_result]:
    """Yield the status of a folder, or a file, and of all below it; links are not followed."""
    status = os.lstat(folder)
    yield status
    waiting = [folder] if stat.S_ISDIR(status.st_mode) else []
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                yield entry.stat(follow_symlinks=False)
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)


def _between(area: str, folder: str) -> list[str]:
    """Return the folders below `area` and above `folder`, none for the same one."""
    above = [os.fspath(path) for path in Path(folder).parents]
    return [path for path in above if is_within(path, area) and path != area]


def is_file(path: str) -> bool:
    """Return whether a region is a file; one that is missing is one by its name."""
    if os.path.lexists(path):
        return not os.path.isdir(path)  # noqa: PTH112 - as the other
    from prsm_core.kit.filenames import names_file  # few regions are not there yet

    return names_file(path)


def _make(folder: str) -> None:
    """Make a folder where nothing is; what is to be a file stands there already, empty."""
    try:
        if not os.path.lexists(folder):
            Path(folder).mkdir(parents=True, exist_ok=True)
        where = os.path.realpath(folder)
    except OSError as error:
        raise ProcessError(
            f"the region {folder} cannot be made for the sandbox: {error.strerror}",
            hint="remove what is in its way",
        ) from error
    if where != folder:
        raise ProcessError(
            f"the region {folder} has become a link to {where}",
            hint="put the folder back in its place",
        )
