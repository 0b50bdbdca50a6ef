"""Opens files that a person names: regular ones alone, for others wait or act when opened."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def open_file(path: str | Path, *, flags: int = 0) -> BinaryIO:
    """Open a regular file to read it; `flags` are further ones of `os.open`.

    Raises OSError for whatever else is there: a pipe, a socket or a device is told, never opened
    for long.
    """
    _check(Path(path).stat(follow_symlinks=not flags & os.O_NOFOLLOW).st_mode)
    handle = os.open(path, _FLAGS | flags)
    try:
        _check(os.fstat(handle).st_mode)  # it may be another one by now
    except OSError:
        os.close(handle)
        raise
    return open(handle, "rb")  # noqa: PTH123 - of a handle


def read_regular(path: str | Path, limit: int = -1) -> bytes:
    """Return what a regular file holds, at most so many bytes. Raises OSError as `open_file`."""
    with open_file(path) as file:
        return file.read(limit)


def _check(mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode) and not stat.S_ISLNK(mode):
        raise OSError(errno.EINVAL, "it is no regular file")
