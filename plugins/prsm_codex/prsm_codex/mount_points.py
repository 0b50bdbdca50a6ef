"""Removes the empty folders that Codex's sandbox leaves behind when it is killed.

On Linux the sandbox mounts over some names in each folder that commands may write. It creates those
that are missing, and its helper removes them behind the command. An interrupt kills the helper too,
and no later one removes what another has created (Codex 0.169, issue 31599 of openai/codex): an
empty `.git` would stay among the person's files.

Codex's registry, below its TMPDIR, says what it has created: a folder for each path, named by the
path's hash, with a file for each helper that uses it, named by its process id.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

# What Codex keeps read-only in each folder that may be written, whether it is there or not.
READ_ONLY = (".git", ".agents", ".codex", ".aws")
_CREATED = "synthetic"


async def remove_mount_points(temp: Path, folders: Iterable[str]) -> None:
    """Remove what Codex has created in writable folders, unless a helper of it still runs.

    `temp` is the TMPDIR of the Codex that had these folders.
    """
    await asyncio.to_thread(_remove_all, temp, folders)


def _remove_all(temp: Path, folders: Iterable[str]) -> None:
    registry = temp / f"codex-bwrap-synthetic-mount-targets-{os.getuid()}"
    try:
        lock = (registry / "lock").open("rb")
    except FileNotFoundError:
        return
    # Codex holds the lock while it registers a helper, so that nobody begins to use a path
    # meanwhile. Where Codex has it, the end of a later turn tries again.
    with lock, contextlib.suppress(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for folder in folders:
            for name in READ_ONLY:
                path = Path(folder, name)
                _remove(path, registry / f"{path_hash(os.fsencode(path)):016x}")


def _remove(path: Path, users: Path) -> None:
    try:
        helpers = list(users.iterdir())
    except FileNotFoundError:
        return
    if any(_is_running(helper.name) for helper in helpers):
        return
    if any(helper.read_text().strip() == _CREATED for helper in helpers):
        # What is not empty is the person's by now.
        with contextlib.suppress(OSError):
            path.rmdir()
    for helper in helpers:
        helper.unlink()
    users.rmdir()


def _is_running(pid: str) -> bool:
    try:
        stat = Path("/proc", pid, "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def path_hash(data: bytes) -> int:
    """Return the 64-bit FNV-1a hash by which Codex names a path."""
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value
