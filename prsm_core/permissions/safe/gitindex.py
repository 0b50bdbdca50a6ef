"""The submodules in an index of git, told without git."""

from __future__ import annotations

import os
import re
import stat
from functools import lru_cache

_MAX_SIZE = 32 * 2**20  # bytes; of a longer index it is not known
_MAX_CACHED = 32
_LINK = 0o160000
_LINK_BYTES = b"\x00\x00\xe0\x00"
_HEADER = 12
_HASH = 20
# Of a split index; the size follows, which is no more than 16 MB.
_SHARED = re.compile(rb"link(\0[\0-\xff]{3})")
_MODE, _HASHES = 24, 40  # where they are in an entry
_EXTENDED = 0x4000
_NAME_LENGTH = 0xFFF
_UNKNOWN: tuple[str | None, ...] = (None,)


def links_of(path: str) -> tuple[str | None, ...]:
    """Return the paths of the submodules in an index; None among them where it cannot be told."""
    try:
        info = os.stat(path)  # noqa: PTH116 - text all the way, it may be no path
    except (FileNotFoundError, NotADirectoryError):
        return ()
    if not stat.S_ISREG(info.st_mode) or info.st_size > _MAX_SIZE:
        return _UNKNOWN
    return _cached(path, info.st_mtime_ns, info.st_ctime_ns, info.st_ino, info.st_size)


@lru_cache(maxsize=_MAX_CACHED)
def _cached(path: str, _mtime: int, _ctime: int, _inode: int, _size: int) -> tuple[str | None, ...]:
    with open(path, "rb") as file:  # noqa: PTH123
        data = file.read(_MAX_SIZE)
    if data[:4] != b"DIRC":
        return _UNKNOWN
    if any(int.from_bytes(size, "big") >= _HASH for size in _SHARED.findall(data)):
        return _UNKNOWN  # its entries may stand in another file
    if _LINK_BYTES not in data:
        return ()
    version = int.from_bytes(data[4:8], "big")
    if version not in {2, 3}:
        return _UNKNOWN
    for hash_size in (20, 32):
        found = _links(data, int.from_bytes(data[8:12], "big"), hash_size)
        if found is not None:
            return found
    return _UNKNOWN


def _links(data: bytes, count: int, hash_size: int) -> tuple[str, ...] | None:
    """Return the links among the entries, None when they are not written so."""
    found: list[str] = []
    at = _HEADER
    for _ in range(count):
        flags_at = at + _HASHES + hash_size
        flags = int.from_bytes(data[flags_at : flags_at + 2], "big")
        name_at = flags_at + (4 if flags & _EXTENDED else 2)
        end = data.find(b"\0", name_at)
        mode = int.from_bytes(data[at + _MODE : at + _MODE + 4], "big")
        length = flags & _NAME_LENGTH
        if (
            end < 0
            or mode >> 12 not in {0o4, 0o10, 0o12, 0o16}
            or (length < _NAME_LENGTH and end - name_at != length)
        ):
            return None
        if mode == _LINK:
            found.append(os.fsdecode(data[name_at:end]))
        at += (end - at + 8) & ~7
    return tuple(found)
