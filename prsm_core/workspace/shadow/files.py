"""What is at a path, if anything is."""

from __future__ import annotations

import errno
import os

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
