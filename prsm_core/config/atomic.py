"""Replaces files as a whole: a reader, or a crash, finds the old bytes or the new ones."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path


def replace_file(path: Path, data: bytes) -> None:
    """Write a file as a whole; a new one is readable by this user alone.

    A link is replaced, not its target. Raises OSError, also for a device, a pipe or a socket.
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
