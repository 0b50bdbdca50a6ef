"""Whether a path is below a folder, by their texts."""

from __future__ import annotations


def is_within(path: str, folder: str) -> bool:
    """Return whether a resolved path is a folder or below it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")
