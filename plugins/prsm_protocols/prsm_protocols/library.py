"""The pages of workspaces, read again as their files change.

Only regular files named `….md` are pages; a link is none, for it may lead anywhere. A folder with
any page that is wrong is wrong as a whole: what a page leads to cannot be told from a part of them.
"""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING

from prsm_protocols.compiled import ProtocolSet, compile_pages
from prsm_protocols.places import PAGES
from prsm_protocols.problems import Problem, ProtocolError
from prsm_protocols.reading import MAX_BYTES, read_page

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from prsm_protocols.reading import Source

MAX_PAGES = 200
_KNOWN = 64  # workspaces that are remembered
_NO_PAGES = frozenset({"readme.md"})
_OPEN = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW

_FINE_GRAIN = 50_000_000  # nanoseconds: a system that tells parts of a millisecond counts in ticks
_COARSE_GRAIN = 2_000_000_000  # the most that one counts in which does not

Signature = tuple[tuple[str, int, int, int], ...]
Stamp = tuple[int, int, int, int]


class _Known:
    """What a workspace's pages were when they were read, and what its folder was like."""

    __slots__ = ("found", "listed", "signature")

    def __init__(self, signature: Signature, found: ProtocolSet | ProtocolError) -> None:
        self.signature = signature
        self.found = found
        self.listed: Stamp | None = None  # of the folder that has these names, once it is settled


class Library:
    """Owns what is known of the pages of each workspace; `now` is in Unix nanoseconds."""

    def __init__(self, now: Callable[[], int] = time.time_ns) -> None:
        self._now = now
        self._known: dict[str, _Known] = {}

    def read(self, workspace: str) -> ProtocolSet:
        """Return the protocols of a workspace, as its files are now; blocks.

        Raises ProtocolError for pages that are wrong.
        """
        folder = Path(workspace, PAGES)
        signature = _signature(folder)
        if (found := self._same(workspace, signature)) is not None:
            return found
        while len(self._known) >= _KNOWN:
            del self._known[next(iter(self._known))]
        known = self._known[workspace] = _Known(signature, _compiled(folder))
        return _or_raise(known.found)

    def current(self, workspace: str) -> ProtocolSet | None:
        """Return what `read` would, where no file has to be read for it; raises as it does."""
        return self._same(workspace, _signature(f"{workspace}/{PAGES}"))

    def unchanged(self, workspace: str) -> ProtocolSet | None:
        """Return what `current` would, without listing a folder that is as it was when listed.

        Any other name in it gives it another time, if it was listed later than its time can tell.
        """
        folder = f"{workspace}/{PAGES}"
        known, stamp = self._known.get(workspace), _stamp(folder)
        if known is None or stamp is None:
            return self.current(workspace)
        if known.listed == stamp:
            told = tuple(_told(name, folder) for name, *_ in known.signature)
            return _or_raise(known.found) if told == known.signature else None
        begun = self._now()
        if (found := self.current(workspace)) is not None and _is_settled(stamp, begun):
            known.listed = stamp
        return found

    def _same(self, workspace: str, signature: Signature) -> ProtocolSet | None:
        known = self._known.get(workspace)
        is_same = known is not None and known.signature == signature
        return _or_raise(known.found) if known is not None and is_same else None


def _or_raise(found: ProtocolSet | ProtocolError) -> ProtocolSet:
    if isinstance(found, ProtocolError):
        raise ProtocolError(found.problems)  # another one: who raises it adds to its traceback
    return found


def read_folder(folder: Path) -> list[Source]:
    """Return the pages of a folder, in order of their names, none where it is missing; blocks.

    Raises ProtocolError with all that is wrong with them.
    """
    paths = [folder / name for name, *_ in _signature(folder)]
    if len(paths) > MAX_PAGES:
        raise _error(folder, f"there are {len(paths)} pages; {MAX_PAGES} are the most")
    return read_files(paths)


def read_files(paths: Iterable[Path]) -> list[Source]:
    """Return the pages that files hold; raises ProtocolError with all that is wrong with them."""
    sources: list[Source] = []
    wrong: list[Problem] = []
    for path in paths:
        data = _data(path)
        source, problems = (None, (data,)) if isinstance(data, Problem) else _page(data, path)
        if source is None:
            wrong += problems
        else:
            sources.append(source)
    if wrong:
        raise ProtocolError(wrong)
    return sources


def _page(data: bytes, path: Path) -> tuple[Source | None, tuple[Problem, ...]]:
    return read_page(data, str(path))


def _compiled(folder: Path) -> ProtocolSet | ProtocolError:
    try:
        return compile_pages(read_folder(folder))[0]
    except ProtocolError as error:
        return error


def _signature(folder: str | Path) -> Signature:
    """Return what changes whenever a page does; a folder that is missing has no page."""
    try:
        with os.scandir(folder) as entries:
            found = [entry for entry in entries if _is_page(entry.name)]
            told = [(entry.name, entry.stat(follow_symlinks=False)) for entry in found]
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise _error(folder, f"it cannot be read: {error.strerror}") from error
    return tuple(sorted((name, of.st_mtime_ns, of.st_size, of.st_ino) for name, of in told))


def _stamp(folder: str) -> Stamp | None:
    """Return what changes whenever a name in a folder does; None where it cannot be told."""
    try:
        of = os.stat(folder)  # noqa: PTH116 - each move comes by here, and a Path costs more
    except OSError:
        return None
    return (of.st_ctime_ns, of.st_mtime_ns, of.st_ino, of.st_dev)


def _is_settled(stamp: Stamp, now: int) -> bool:
    """Return whether what is changed in a folder from now on, in nanoseconds, gives another."""
    changed = stamp[0]
    return now - changed > (_FINE_GRAIN if changed % 1_000_000 else _COARSE_GRAIN)


def _told(name: str, folder: str) -> tuple[str, int, int, int] | None:
    """Return what a signature has of a page; None where it is gone."""
    try:
        of = os.lstat(f"{folder}/{name}")
    except OSError:
        return None
    return (name, of.st_mtime_ns, of.st_size, of.st_ino)


def _is_page(name: str) -> bool:
    return name.endswith(".md") and name.lower() not in _NO_PAGES and not name.startswith(".")


def _data(path: Path) -> bytes | Problem:
    """Return what a file holds, one byte more than a page may have at most."""
    try:
        descriptor = os.open(path, _OPEN)
    except OSError as error:
        why = "it is a link" if path.is_symlink() else f"it cannot be read: {error.strerror}"
        return Problem(file=str(path), line=1, text=f"{why}; put a file there")
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return Problem(file=str(path), line=1, text="it is no file; put one there")
        return file.read(MAX_BYTES + 1)


def _error(folder: str | Path, text: str) -> ProtocolError:
    return ProtocolError([Problem(file=str(folder), line=1, text=text)])
