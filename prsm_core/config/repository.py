"""Tells the folder that was trusted from another one at its path.

A copy, a new clone and a restored backup are other folders: their inode or birth time differs.
Other history in the same folder has another root commit. Each alone is weak: inodes are used again,
not every file system notes births, and a fork has the root of what it was forked from.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

from prsm_core.domain.record import Record

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

ROOTS_SECONDS = 20.0  # for git to walk a history, once, when trust is given
FIND_SECONDS = 5.0  # for git to look a commit up
MAX_ROOTS = 100

_AT_FDCWD = -100
_STATX_BTIME = 0x800
_STATX_SIZE = 256
_MASK, _BTIME_SECONDS, _BTIME_NANOSECONDS = (0, 4), (80, 88), (88, 92)  # in struct statx
# The repository's own configuration is read. What it could start, or fetch, is switched off.
_QUIET = (
    "--no-pager",
    "--no-replace-objects",
    *("-c", "safe.bareRepository=explicit", "-c", "core.fsmonitor=false"),
    *("-c", f"core.hooksPath={os.devnull}", "-c", "protocol.allow=never"),
)
_VARIABLES = {
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}


class Folder(Record, frozen=True, kw_only=True):
    """A folder, told from all others; `born` is in nanoseconds, None where nobody notes it."""

    device: int
    inode: int
    born: int | None


def identify(folder: Path) -> Folder | None:
    """Return which folder is at a path; None if there is none."""
    try:
        found = folder.stat()
    except OSError:
        return None
    return Folder(device=found.st_dev, inode=found.st_ino, born=birth_time(folder))


def birth_time(path: Path) -> int | None:
    """Return when a file was made, in nanoseconds; None where the system does not say."""
    import ctypes  # few workspaces are trusted, and it costs what a start is measured by

    statx = getattr(ctypes.CDLL(None), "statx", None)  # Python 3.11 has no call for it
    if statx is None:
        return None
    place = ctypes.create_string_buffer(_STATX_SIZE)
    if statx(_AT_FDCWD, os.fsencode(path), 0, _STATX_BTIME, place):
        return None
    mask, seconds, rest = (
        int.from_bytes(place.raw[start:end], sys.byteorder)
        for start, end in (_MASK, _BTIME_SECONDS, _BTIME_NANOSECONDS)
    )
    return seconds * 10**9 + rest if mask & _STATX_BTIME else None


def root_commits(folder: Path) -> tuple[str, ...]:
    """Return the commits that what is checked out began with.

    There are none without a repository, before its first commit, in a clone that is shallow, and
    where git gives no answer in time.
    """
    if _ask(folder, ("rev-parse", "--is-shallow-repository"), FIND_SECONDS) != "false\n":
        return ()
    told = _ask(folder, ("rev-list", "--max-parents=0", "HEAD", "--"), ROOTS_SECONDS) or ""
    return tuple(sorted(told.split())[:MAX_ROOTS])


def has_commits(folder: Path, commits: Sequence[str]) -> bool:
    """Return whether the repository of a folder has these commits; without any nobody is asked."""
    if not commits:
        return True
    asked = "".join(f"{commit}\n" for commit in commits)
    told = _ask(folder, ("cat-file", "--batch-check=%(objecttype)"), FIND_SECONDS, asked)
    return told == "commit\n" * len(commits)


def _ask(folder: Path, words: Sequence[str], seconds: float, given: str = "") -> str | None:
    """Return what git says about a folder, None for an error."""
    git = shutil.which("git")
    if git is None or not git.startswith(os.sep):
        return None
    environ = {name: text for name, text in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            (git, "-C", folder, *_QUIET, *words),
            input=given,
            capture_output=True,
            text=True,
            errors="replace",
            env=environ | _VARIABLES,
            timeout=seconds,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
