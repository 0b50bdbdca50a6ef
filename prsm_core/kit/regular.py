"""Reads and replaces files that a person or a repository names: only regular ones.

A pipe, a socket or a device waits or acts when it is opened, and `/dev/zero` never ends. Each error
is an OSError whose `strerror` says what is there.
"""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_MIB = 1 << 20


def open_file(path: str | Path, *, flags: int = 0) -> BinaryIO:
    """Open a regular file for reading; `flags` are further ones of `os.open`. Raises OSError."""
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


def replace_file(path: Path, data: bytes) -> None:
    """Write a file as a whole; a new one is readable by this user alone.

    A reader, or a crash, finds the old bytes or the new ones. A link is replaced, not its target.
    Raises OSError, also for a device, a pipe or a socket.
    """
    with suppress(FileNotFoundError):
        kind = stat.S_IFMT(path.lstat().st_mode)
        if kind not in {stat.S_IFREG, stat.S_IFLNK, stat.S_IFDIR}:  # a folder refuses by itself
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-")  # mode 0600
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            with suppress(FileNotFoundError):
                os.fchmod(descriptor, path.stat().st_mode & 0o777)
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _too_large(limit: int) -> OSError:
    return OSError(errno.EFBIG, f"it is larger than {limit // _MIB} MiB")


def _check(mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode) and not stat.S_ISLNK(mode):
        raise OSError(errno.EINVAL, "it is no regular file")
