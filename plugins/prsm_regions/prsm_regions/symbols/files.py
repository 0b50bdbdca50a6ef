"""Files of a tree, read with care: which there are, whether one changed, and what is in it."""

from __future__ import annotations

import hashlib
import os
import stat
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_SIZE = 2 * 1024 * 1024  # bytes; beyond that a file is data, or made by a program
MAX_FILES = 200_000  # that a walk finds
_TRIES = 3
_HEAD = 8192  # bytes in which a NUL says that a file is no text
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
SETTLING_NS = 20_000_000  # a change within a tick of the clock behind another leaves no trace
_PASSED = frozenset(
    (
        *(".git", ".hg", ".svn", "node_modules", ".venv", "venv", "__pycache__", ".tox"),
        *(".mypy_cache", ".ruff_cache", ".pytest_cache", "target", "build", "dist"),
    )
)

Stamp = tuple[int, int, int, int]  # size, modification, change of the inode in ns, inode


class Content(msgspec.Struct, frozen=True, gc=False):
    """What a file held: its bytes as UTF-8 (None: not looked into, for `why`), and its hash."""

    stamp: Stamp
    hash: bytes
    text: bytes | None
    why: str = ""


def stamp_of(found: os.stat_result) -> Stamp:
    """Return what tells that a file has not changed."""
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino


def unsettled(size: int) -> Stamp:
    """Return a stamp of a file of that size that equals the stamp of no file on a disk."""
    return size, 0, 0, 0


def look(root: str, path: str) -> Stamp | None:
    """Return the stamp of a regular file, None where there is none; links are none."""
    try:
        found = os.lstat(f"{root}/{path}")
    except (OSError, ValueError):
        return None
    return stamp_of(found) if stat.S_ISREG(found.st_mode) else None


def read(root: str, path: str, now_ns: int) -> Content | None:
    """Return what a regular file below `root` holds, None where there is none or it may not.

    One that goes on changing has a stamp that equals none, so that the next look reads it anew.
    """
    whole = f"{root}/{path}"
    try:
        folder = os.path.realpath(os.path.dirname(whole))  # noqa: PTH120 - a path, not an object
        if not f"{folder}/".startswith(f"{os.path.realpath(root)}/"):
            return None
        descriptor = os.open(whole, _FLAGS)
    except (OSError, ValueError):
        return None
    try:
        return _read(descriptor, now_ns)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _read(descriptor: int, now_ns: int) -> Content | None:
    data = b""
    for _ in range(_TRIES):
        before = os.fstat(descriptor)
        if not stat.S_ISREG(before.st_mode):
            return None
        stamp = stamp_of(before)
        if before.st_size > MAX_SIZE:
            return Content(stamp, b"", None, f"{before.st_size // 1_000_000} MB long")
        data = os.pread(descriptor, before.st_size + 1, 0)
        if stamp_of(os.fstat(descriptor)) == stamp and len(data) == before.st_size:
            settled = now_ns - max(before.st_mtime_ns, before.st_ctime_ns) > SETTLING_NS
            return _content(data, stamp if settled else unsettled(len(data)))
    return _content(data[:MAX_SIZE], unsettled(len(data)))


def _content(data: bytes, stamp: Stamp) -> Content:
    digest = hashlib.sha1(b"blob %d\0" % len(data), usedforsecurity=False)
    digest.update(data)
    if data[:2] in {b"\xff\xfe", b"\xfe\xff"}:  # UTF-16, by its mark
        return Content(stamp, digest.digest(), data.decode("utf-16", "replace").encode())
    if b"\0" in data[:_HEAD]:
        return Content(stamp, digest.digest(), None, "no text")
    return Content(stamp, digest.digest(), data.removeprefix(b"\xef\xbb\xbf"))


def walk(root: str) -> Iterator[str]:
    """Yield the files below a folder that is in no repository, relative to it, by name."""
    count = 0
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in _PASSED)
        inside = os.path.relpath(folder, root)
        for name in sorted(names):
            count += 1
            if count > MAX_FILES:
                return
            yield name if inside == "." else f"{inside}/{name}"
