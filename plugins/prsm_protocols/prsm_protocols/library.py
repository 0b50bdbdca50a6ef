"""The pages of workspaces, read again as their files change.

Only regular files named `….md` are pages; a link is none, for it may lead anywhere. A folder with
any page that is wrong is wrong as a whole: what a page leads to cannot be told from a part of them.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from prsm_protocols.compiled import ProtocolSet, compile_pages
from prsm_protocols.places import PAGES
from prsm_protocols.problems import Problem, ProtocolError
from prsm_protocols.reading import MAX_BYTES, read_page

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prsm_protocols.reading import Source

MAX_PAGES = 200
_NO_PAGES = frozenset({"readme.md"})
_OPEN = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW

Signature = tuple[tuple[str, int, int, int], ...]


class Library:
    """Owns what is known of the pages of each workspace."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Signature, ProtocolSet | ProtocolError]] = {}

    def read(self, workspace: str) -> ProtocolSet:
        """Return a workspace's protocols as its files are now; blocks. Raises ProtocolError."""
        if (known := self.current(workspace)) is not None:
            return known
        folder = Path(workspace, PAGES)
        # Before the pages: what changes while they are read is read again.
        signature = _signature(folder)
        self._known[workspace] = signature, _compiled(folder)
        return _or_raise(self._known[workspace][1])

    def current(self, workspace: str) -> ProtocolSet | None:
        """Return what `read` would, where no file has to be read for it; raises as it does."""
        signature = _signature(f"{workspace}/{PAGES}")
        known, protocols = self._known.get(workspace, (None, None))
        return _or_raise(protocols) if protocols is not None and known == signature else None


def _or_raise(found: ProtocolSet | ProtocolError) -> ProtocolSet:
    if isinstance(found, ProtocolError):
        raise ProtocolError(found.problems)  # another one: who raises it adds to its traceback
    return found


def read_folder(folder: Path) -> list[Source]:
    """Return the pages of a folder, by name, if it is there; blocks. Raises ProtocolError."""
    paths = [folder / name for name, *_ in _signature(folder)]
    if len(paths) > MAX_PAGES:
        raise _error(folder, f"there are {len(paths)} pages; {MAX_PAGES} are the most")
    return read_files(paths)


def read_files(paths: Iterable[Path]) -> list[Source]:
    """Return the pages that files hold; raises ProtocolError with all that is wrong with them."""
    sources: list[Source] = []
    wrong: list[Problem] = []
    for path in paths:
        try:
            source, problems = read_page(_data(path), str(path))
        except ProtocolError as error:
            source, problems = None, error.problems
        if source is None:
            wrong += problems
        else:
            sources.append(source)
    if wrong:
        raise ProtocolError(wrong)
    return sources


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


def _is_page(name: str) -> bool:
    return name.endswith(".md") and name.lower() not in _NO_PAGES and not name.startswith(".")


def _data(path: Path) -> bytes:
    """Return what a file holds, one byte more than a page may have at most."""
    try:
        descriptor = os.open(path, _OPEN)
    except OSError as error:
        why = "it is a link" if path.is_symlink() else f"it cannot be read: {error.strerror}"
        raise _error(path, f"{why}; put a file there") from error
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _error(path, "it is no file; put one there")
        return file.read(MAX_BYTES + 1)


def _error(folder: str | Path, text: str) -> ProtocolError:
    return ProtocolError([Problem(file=str(folder), line=1, text=text)])
