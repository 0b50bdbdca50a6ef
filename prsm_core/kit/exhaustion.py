"""What a machine has run out of, in words: space, inodes, quota, open files, or leave to write.

Such an error comes up anywhere, as a failed import or an unreadable ledger.
"""

from __future__ import annotations

import errno
import os
import re
import resource
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from prsm_core.errors import PrsmError
from prsm_core.kit.places import own_folders

if TYPE_CHECKING:
    from collections.abc import Iterator

# What git and other programs print of it.
_WORDS = {
    os.strerror(number): number
    for number in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMFILE, errno.ENFILE)
}
_WORDS |= {name: getattr(errno, name) for name in ("ENOSPC", "EDQUOT", "EROFS", "EMFILE", "ENFILE")}
_WORDS["database or disk is full"] = errno.ENOSPC
_DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})
# SQLite does not say what the system said. READONLY, IOERR, FULL:
_SQLITE = frozenset({8, 10, 13})
_CANNOT_OPEN = "unable to open database file"
_OF_FILES = frozenset({"git", "process", "store"})  # codes of errors that a disk may be behind
_SHORT = 256  # files open at a time: less than a tree of agents needs
_FILES = 1024  # open at a time: far more than an engine with many agents needs
# A row's fifth word is where it is mounted; blanks are octal there.
_MOUNTS = Path("/proc/self/mountinfo")
_OCTAL = re.compile(r"\\([0-7]{3})")
_BLOCK = b"\0" * 8192  # what is written to see whether anything can be


_PATH = re.compile(r"(?<![\w/])/[^\s:;,'\"]+")


class Exhaustion(NamedTuple):
    """What is used up, and what a person can do about it."""

    message: str
    hint: str


_SOME_DISK = Exhaustion(
    "a disk takes no more", "look which file system is full or read-only: df, df -i, mount"
)


def exhaustion_of(error: BaseException) -> Exhaustion | None:
    """Return what an error or its cause says is used up; without a path PRSM's own files count."""
    for one in _chain(error):
        if isinstance(one, OSError) and (found := _of_number(one.errno, one.filename)) is not None:
            return found
        is_of_sqlite = hasattr(one, "sqlite_errorcode")
        text = one.message if isinstance(one, PrsmError) else str(one) if is_of_sqlite else ""
        if _CANNOT_OPEN in text:
            is_short = resource.getrlimit(resource.RLIMIT_NOFILE)[0] < _SHORT
            return _of_own_disk() or (_of_files() if is_short else None)
        if getattr(one, "sqlite_errorcode", 0) & 0xFF in _SQLITE:
            return _of_own_disk()
        if (found := _of_words(text)) is not None:
            return found
    # Some programs do not say what the system said.
    return _of_own_disk() if isinstance(error, PrsmError) and error.code in _OF_FILES else None


def _of_own_disk() -> Exhaustion | None:
    folders = own_folders(os.environ)
    return next(filter(None, map(find_exhaustion, (folders.data, folders.state))), None)


def speaks_of_exhaustion(text: str) -> bool:
    """Return whether an error in words says that something is used up."""
    return any(words in text for words in _WORDS)


def find_exhaustion(folder: Path) -> Exhaustion | None:
    """Return what keeps a file from being written in a folder, or its nearest parent; else None."""
    place = _nearest(folder)
    try:
        with tempfile.TemporaryFile(dir=place) as file:
            file.write(_BLOCK)
            file.flush()
    except OSError as error:
        return _of_number(error.errno, place)
    return None


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, those in it if it is a group, and those that led to it; each once."""
    waiting, seen = [error], set[int]()
    while waiting:
        one = waiting.pop(0)
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        if isinstance(one, BaseExceptionGroup):
            waiting += one.exceptions
        before = one.__cause__ or (None if one.__suppress_context__ else one.__context__)
        waiting += [] if before is None else [before]


def _of_words(text: str) -> Exhaustion | None:
    number = next((_WORDS[words] for words in _WORDS if words in text), None)
    if number not in _DISK:
        return _of_number(number, None)
    named = (Path(path) for path in _PATH.findall(text))
    return next(filter(None, map(find_exhaustion, (*named, *_own_places()))), _SOME_DISK)


def _own_places() -> Iterator[Path]:
    """Yield where PRSM writes if it is not said where."""
    yield Path()
    folders = own_folders(os.environ)
    yield from (folders.data, folders.state, folders.trees)


def _of_number(number: int | None, path: object) -> Exhaustion | None:
    if number == errno.EMFILE:
        return _of_files()
    if number == errno.ENFILE:
        return Exhaustion(
            "the system can open no more files",
            "end programs that hold many open, or raise the limit: sysctl fs.file-max",
        )
    if number not in _DISK:
        return None
    if not isinstance(path, str | bytes | Path):
        return next(filter(None, map(find_exhaustion, _own_places())), _SOME_DISK)
    return _of_disk(number, _nearest(Path(os.fsdecode(path))))


def _of_files() -> Exhaustion:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    is_free = hard == resource.RLIM_INFINITY or hard >= _FILES
    how = f"ulimit -n {_FILES}" if is_free else f"start it where ulimit -Hn is at least {_FILES}"
    return Exhaustion(
        f"this process may have no more than {soft} files open at a time (ulimit -n)",
        f"allow more: {how}",
    )


def _of_disk(number: int, place: Path) -> Exhaustion:
    mount = _mount(place)
    if number == errno.EROFS:
        return Exhaustion(
            f"the file system at {mount} is read-only",
            "mount it so that it can be written, or set PRSM_HOME to a folder on another one",
        )
    if number == errno.EDQUOT:
        return Exhaustion(
            f"your quota on the file system at {mount} is used up",
            "remove files of yours there (quota says how much you have), or raise it",
        )
    if _has_no_inodes(place):
        return Exhaustion(
            f"the file system at {mount} has no inodes left: no more files can be made",
            f"remove files there (df -i {mount} says how many there are), then go on",
        )
    return Exhaustion(
        f"the disk is full: the file system at {mount} has no space left",
        f"make room there (df {mount} says how much there is), then go on",
    )


def _has_no_inodes(place: Path) -> bool:
    with suppress(OSError):
        found = os.statvfs(place)
        return found.f_files > 0 and found.f_favail == 0
    return False


def _nearest(folder: Path) -> Path:
    for one in (folder, *folder.parents):
        with suppress(OSError):
            if one.is_dir():
                return one
    return Path("/")


def _mount(place: Path) -> Path:
    """Return a folder's mount by the kernel's table: a second mount has its parent's device."""
    with suppress(OSError):
        place = place.resolve()
        table = _MOUNTS.read_text("utf-8", "surrogateescape").splitlines()
        tops = (_OCTAL.sub(lambda match: chr(int(match[1], 8)), row.split(" ")[4]) for row in table)
        around = [Path(top) for top in tops if place.is_relative_to(top)]
        return max(around, key=lambda top: len(top.parts), default=place)
    return place
