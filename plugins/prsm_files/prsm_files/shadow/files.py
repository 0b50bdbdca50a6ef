"""What is at a path, if anything is, and files of our own that are written whole."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

import msgspec

from prsm_core import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

_NOTHING = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})
T = TypeVar("T")
Stamp = tuple[int, ...]  # kind and permissions, size, times and number of a file
_LONGEST = 4095  # bytes of a path that the system opens


def status(path: str) -> os.stat_result | None:
    """Return what the system says of a path, links not followed; None: nothing can be there."""
    try:
        return os.lstat(path)
    except OSError as error:
        if error.errno in _NOTHING:
            return None
        raise


def stamp_of(path: str) -> Stamp | None:
    """Return what is another once a file is written, links not followed; None: nothing is there."""
    found = status(path)
    if found is None:
        return None
    return (found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)


def status_if_any(path: str) -> os.stat_result | None:
    """Return what the system says of a path, links not followed; None where it says nothing."""
    try:
        return os.lstat(path)
    except OSError:
        return None


def mode_of(path: str) -> int | None:
    """Return the permissions of a file, None for anything else."""
    found = status_if_any(path)
    return stat.S_IMODE(found.st_mode) if found and stat.S_ISREG(found.st_mode) else None


def why_not_stored(path: str, stamp: Stamp | None, limit: int) -> str:
    """Return why what is at a path cannot be stored, "" if it can; `limit` is in bytes."""
    if stamp is None or stat.S_ISLNK(stamp[0]) or stat.S_ISDIR(stamp[0]):
        return ""
    if not stat.S_ISREG(stamp[0]):
        return "it is a pipe, a socket or a device"
    if stamp[1] > limit:
        return f"it is larger than {limit // 2**20} MiB"
    return "" if os.access(path, os.R_OK) else "it cannot be read"


def is_reachable(path: str) -> bool:
    """Return whether a path is short enough for the system; one may be made step by step."""
    return len(os.fsencode(path)) <= _LONGEST


def is_inside(path: str) -> bool:
    """Return whether a path from the top of a folder stays in it, and out of what is git's."""
    return not {"", ".", "..", ".git"} & set(path.split("/"))


def folders_above(path: str) -> list[str]:
    """Return the folders above a path, from the top of its root; the highest first."""
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def put(file: Path, data: bytes, *, is_durable: bool = False) -> None:
    """Write a file whole, or leave it as it was, also if the process is killed. Raises OSError.

    There is one writer. What `is_durable` is on the disk when this returns, if the power fails,
    too.
    """
    new = file.with_name(f"{file.name}.new")
    try:
        new.write_bytes(data)
        if is_durable:
            sync(new)
    except OSError:  # such as a full disk
        new.unlink(missing_ok=True)
        raise
    new.replace(file)
    if is_durable:
        sync(file.parent)


def sync(path: Path) -> None:
    """Have what a file holds, or the names in a folder, on the disk. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def to_json(value: object) -> bytes:
    """Return a record as one line of ASCII: a path that is no UTF-8 survives it."""
    return json.dumps(msgspec.to_builtins(value)).encode("ascii")


def from_json(data: bytes, kind: type[T]) -> T:
    """Return what `to_json` wrote. Raises ValueError."""
    return msgspec.convert(json.loads(data), kind)


def put_json(file: Path, value: object, *, is_durable: bool = False) -> None:
    """Write a record whole; see `put`."""
    put(file, to_json(value), is_durable=is_durable)


def read_json(file: Path, kind: type[T]) -> T | None:
    """Return a record; None: there is none, or a full disk left what cannot be read."""
    try:
        return from_json(file.read_bytes(), kind)
    except (FileNotFoundError, ValueError):
        return None


def read_note(
    file: Path,
    kind: type[T],
    what: str = "something that was cut off",
    cure: str = "look at the files with `git status`, then delete that file, and try again",
) -> T | None:
    """Return what a durable note says, if it is there. Raises ConfigError if it is damaged."""
    try:
        return from_json(file.read_bytes(), kind)
    except FileNotFoundError:
        return None
    except ValueError as error:
        said = f"what {file.name} says of {what} cannot be read: {file}"
        raise ConfigError(said, hint=cure, code="damaged_note") from error


def write_new(file: Path, data: bytes, mode: int | None = None, *, is_durable: bool = True) -> None:
    """Write a file that is not there yet, private at first. Raises OSError."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as new:
        new.write(data)
        if is_durable:
            new.flush()
            os.fsync(descriptor)
        if mode is not None:
            os.fchmod(descriptor, mode)


def begin_hash(size: int, like: str) -> hashlib._Hash:
    """Return what hashes a file of this size as git does, to an id that is `like` another."""
    digest = hashlib.new("sha256" if len(like) == 64 else "sha1", usedforsecurity=False)
    digest.update(b"blob %d\0" % size)
    return digest


def put_if_new(file: Path, data: bytes) -> None:
    """Write a file whole if it holds anything else."""
    with suppress(FileNotFoundError):
        if file.read_bytes() == data:
            return
    put(file, data)
