"""What is at a path, if anything is, and files of our own that are written whole."""

from __future__ import annotations

import errno
import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from prsm_core import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

_NOTHING = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})
_LONGEST = 4095  # bytes of a path that the system opens


def status(path: str) -> os.stat_result | None:
    """Return what the system says of a path, links not followed; None where nothing is.

    A link above it that leads in a circle has nothing behind it, and at a path that is too long
    nobody finds anything. Raises OSError.
    """
    try:
        return os.lstat(path)
    except OSError as error:
        if error.errno in _NOTHING:
            return None
        raise


def is_reachable(path: str) -> bool:
    """Return whether a path is short enough for the system; one may be made step by step."""
    return len(os.fsencode(path)) <= _LONGEST


def is_inside(path: str) -> bool:
    """Return whether a path from the top of a folder stays in it, and out of what is git's."""
    return not {"", ".", "..", ".git"} & set(path.split("/"))


def put(file: Path, data: bytes, *, is_durable: bool = False) -> None:
    """Write a file whole, or leave it as it was: who is killed in the midst leaves no half of one.

    There is one writer: whoever has the lock of the folder, or owns the file. Where `is_durable` it
    is on the disk by its name when this returns, also if the power fails; a note of what is to be
    done has to be, one of what can be found out again has not. Raises OSError.
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


def read_note(file: Path) -> dict[str, Any] | None:
    """Return what a durable note says; None: there is none.

    Raises ConfigError for one that is damaged: what it asks for cannot be done, nor be left out.
    """
    try:
        given = json.loads(file.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError:
        given = None
    if not isinstance(given, dict):
        raise ConfigError(
            f"what {file.name} says of something that was cut off cannot be read: {file}",
            hint="look at the files with `git status`, then delete that file, and try again",
            code="damaged_note",
        )
    return given


def put_if_new(file: Path, data: bytes) -> None:
    """Write a file whole if it holds anything else."""
    with suppress(FileNotFoundError):
        if file.read_bytes() == data:
            return
    put(file, data)
