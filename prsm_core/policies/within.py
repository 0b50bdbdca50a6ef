"""Whether a path is below a folder, by their texts, and whether it is the only one of its file."""

from __future__ import annotations

import os
import stat


def is_within(path: str, folder: str) -> bool:
    """Return whether a resolved path is a folder or below it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def has_second_name(path: str) -> bool:
    """Return whether a path is an ordinary file that another path leads to as well."""
    try:
        status = os.lstat(path)
    except OSError:
        return False  # nothing is there, or nothing that can be written
    return stat.S_ISREG(status.st_mode) and status.st_nlink > 1
