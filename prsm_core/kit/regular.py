"""Reads files that a person or a repository names: regular ones alone, and no more than fits.

A pipe, a socket or a device waits or acts when it is opened, and `/dev/zero` never ends. Each error
is an OSError whose `strerror` says what is there.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_MIB = 1 << 20


def open_file(path: str | Path, *, flags: int = 0) -> BinaryIO:
    """Open a regular file to read it; `flags` are further ones of `os.open`.

    Raises OSError for whatever else is there: a pipe, a socket or a device is told, never opened
    for long.
    """
    try:
        found = Path(path).stat(follow_symlinks=not flags & os.O_NOFOLLOW)
    except ValueError as error:  # a zero byte, half of a surrogate pair
        raise OSError(errno.EINVAL, "no file can have this name") from error
    _check(found.st_mode)
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


def read_whole(path: str | Path, limit: int) -> bytes:
    """Return all that a regular file holds. Raises OSError as `open_file`, and for a larger one."""
    with open_file(path) as file:
        if os.fstat(file.fileno()).st_size > limit:
            raise _too_large(limit)
        return read_within(file, limit)


def read_within(stream: BinaryIO, limit: int) -> bytes:
    """Return all that a stream gives, which may be a pipe. Raises OSError for more than `limit`."""
    data = stream.read(limit + 1)
    if len(data) > limit:
        raise _too_large(limit)
    return data


def _too_large(limit: int) -> OSError:
    return OSError(errno.EFBIG, f"it is larger than {limit // _MIB} MiB")


def _check(mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode) and not stat.S_ISLNK(mode):
        raise OSError(errno.EINVAL, "it is no regular file")
