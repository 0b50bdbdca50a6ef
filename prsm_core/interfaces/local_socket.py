"""Unix sockets for their owner alone, at paths of any length."""

from __future__ import annotations

import os
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ADDRESS_LIMIT = 100  # bytes; an address holds 107, and 103 on some systems


@contextmanager
def short_name(path: Path) -> Iterator[str]:
    """Give an address of a socket: a path that is too long goes by way of its open folder."""
    if len(os.fsencode(path)) <= ADDRESS_LIMIT:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def bind_private(path: Path) -> socket.socket:
    """Return a socket of mode 0600 that is bound at a path, in place of one that was there.

    Nobody listens yet; it does not block. Raises OSError.
    """
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        bound.setblocking(False)
        os.fchmod(bound.fileno(), 0o600)  # first: the name never has wider rights
        path.unlink(missing_ok=True)
        with short_name(path) as name:
            bound.bind(name)
    except BaseException:
        bound.close()
        raise
    return bound
