"""What is at a path, if anything is, and files of our own that are written whole."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_NOTHING = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})


def status(path: str) -> os.stat_result | None:
    """Return what the system says of a path, links not followed; None where nothing is.

    A link above it that leads in a circle has nothing behind it. Raises OSError.
    """
    try:
        return os.lstat(path)
    except OSError as error:
        if error.errno in _NOTHING:
            return None
        raise


def put(file: Path, data: bytes) -> None:
    """Write a file whole, or leave it as it was: who is killed in the midst leaves no half of one.

    Whoever writes it has the lock of the folder, so that there is one writer.
    """
    new = file.with_name(f"{file.name}.new")
    new.write_bytes(data)
    new.replace(file)
