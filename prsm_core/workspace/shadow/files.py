"""What is at a path, if anything is, and files of our own that are written whole."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_NOTHING = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})
_LONGEST = 4095  # bytes of a path that the system opens


def status(path: str) -> os.stat_result | None:
    """Return what the system says of a path, links not followed; None where nothing is.

    A link above it that leads in a circle has nothing behind it, and at a path that is too long
    nobody finds anything. Raises OSError.
    """
    try:
        return os.lstat(path)
    except OSError as error:
        if error.errno in _NOTHING:
            return None
        raise


def is_reachable(path: str) -> bool:
    """Return whether a path is short enough for the system; one may be made step by step."""
    return len(os.fsencode(path)) <= _LONGEST


def is_inside(path: str) -> bool:
    """Return whether a path from the top of a folder stays in it, and out of what is git's."""
    return not {"", ".", "..", ".git"} & set(path.split("/"))


def put(file: Path, data: bytes) -> None:
    """Write a file whole, or leave it as it was: who is killed in the midst leaves no half of one.

    Whoever writes it has the lock of the folder, so that there is one writer.
    """
    new = file.with_name(f"{file.name}.new")
    new.write_bytes(data)
    new.replace(file)


def put_if_new(file: Path, data: bytes) -> None:
    """Write a file whole if it holds anything else."""
    with suppress(FileNotFoundError):
        if file.read_bytes() == data:
            return
    put(file, data)
