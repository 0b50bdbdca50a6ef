"""What a file would be without one change, or with it: from what it was before, after, and is now.

It is merged three ways, as `git merge-file` does. What does not merge stays as it is.
"""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from prsm_files.changes.looking import content
from prsm_files.shadow.files import folders_above, is_inside, status
from prsm_files.shadow.records import FILE, FILE_BYTES, LINK, PROGRAM, Entry

if TYPE_CHECKING:
    from collections.abc import Collection

    from prsm_files.shadow.root import Root

_MOST_CONFLICTS = 127  # that git counts; more is an error


class Wanted(Struct, frozen=True, kw_only=True):
    """A change that is to be taken back; `path` is from the top of the folder."""

    id: str
    path: str
    root: str
    before: Entry | None
    after: Entry | None

    @property
    def inner(self) -> str:
        """The path from the top of its root."""
        return self.path[len(self.root) :].lstrip("/") if self.root else self.path


class Side(NamedTuple):
    """What is at a path, or would be; `why` says why the rest is not looked at."""

    entry: Entry | None
    why: str = ""


def find_side(root: Root, path: str, going: Collection[str] = ()) -> Side:
    """Return what is at a path now, and store it. Files that are `going` count as gone."""
    if not is_inside(path):
        return Side(None, "that is no path of a file")
    try:
        for above in folders_above(path):
            found = status(f"{root.folder}/{above}")
            if found is None or above in going:
                return Side(None)
            if not stat.S_ISDIR(found.st_mode):
                return Side(None, "a folder above it is a folder no more")
        return _what_is_at(root, path, going)
    except OSError as error:
        return Side(None, f"it cannot be read: {error.strerror}")


def _what_is_at(root: Root, path: str, going: Collection[str]) -> Side:
    place = f"{root.folder}/{path}"
    found = status(place)
    if found is None:
        return Side(None)
    kind = found.st_mode
    if stat.S_ISDIR(kind) and going and _holds_only(root, path, going):
        return Side(None)
    if not (stat.S_ISREG(kind) or stat.S_ISLNK(kind)):
        return Side(None, "something else than a file is there")
    if found.st_size > FILE_BYTES:
        return Side(None, f"it is larger than {FILE_BYTES // 2**20} MiB")
    mode = LINK if stat.S_ISLNK(kind) else PROGRAM if kind & stat.S_IXUSR else FILE
    return Side(Entry(mode, root.shadow.store(content(place))))


def _holds_only(root: Root, top: str, going: Collection[str]) -> bool:
    """Return whether a folder holds nothing but files that are going; an empty one stays."""
    is_read = False
    for folder, folders, files in os.walk(root.folder / top):
        is_read, below = True, os.path.relpath(folder, root.folder)
        links = [name for name in folders if os.path.islink(f"{folder}/{name}")]  # noqa: PTH114
        is_empty = not (files or folders)
        if is_empty or not all(f"{below}/{name}" in going for name in (*files, *links)):
            return False
    return is_read


class Words(Struct, frozen=True, kw_only=True):
    """Why something does not merge, for people."""

    gone: str  # nothing is there
    removing: str  # what is there is another than that which is to go
    adding: str  # … and nothing should have been
    link: str
    binary: str
    lines: str


TAKING_BACK = Words(
    gone="the file is gone since",
    removing="the file that it made is another since",
    adding="the file that it deleted is another since",
    link="it is, or was, a link, and is another since",
    binary="it is no text, and is another since",
    lines="later edits touched the same lines",
)


def without(root: Root, side: Side, change: Wanted) -> Side:
    """Return what is left of a side without a change; its `why` tells why it stays."""
    return merged(root, side, base=change.after, other=change.before, words=TAKING_BACK)


def merged(
    root: Root, side: Side, *, base: Entry | None, other: Entry | None, words: Words
) -> Side:
    """Return a side with what leads from `base` to `other`; its `why` tells why it stays."""
    now = side.entry
    if side.why or now == other:  # it is there already, by whomever
        return side
    for one in (other, base):
        if one is not None and not one.blob:
            return Side(now, f"its content is not kept: {one.why}")
    if now == base:
        if other is None or not root.shadow.ask("cat-file", "-e", other.blob).code:
            return Side(other)
        return Side(now, "what was there before is gone: the repository has thrown it away")
    if now is None:
        return Side(now, words.gone)
    if other is None or base is None:
        return Side(now, words.removing if other is None else words.adding)
    if {now.mode, other.mode, base.mode} - {FILE, PROGRAM}:
        return Side(now, words.link)
    mode = other.mode if now.mode == base.mode else now.mode
    return merged_lines(root, now, other, base, mode, words)


def merged_lines(
    root: Root, now: Entry, other: Entry, base: Entry, mode: str, words: Words = TAKING_BACK
) -> Side:
    """Return a file with what led from `base` to `other`, by lines, and this mode."""
    if other.blob == base.blob:
        return Side(Entry(mode, now.blob))
    if now.blob == base.blob:
        return Side(Entry(mode, other.blob))
    with tempfile.TemporaryDirectory(dir=root.place, prefix="merge-") as folder:
        files = []
        for name, entry in (("now", now), ("base", base), ("other", other)):
            data = root.shadow.ask("cat-file", "blob", entry.blob)
            if data.code:
                return Side(now, "what it held is gone: the repository has thrown it away")
            files.append(str(Path(folder, name)))
            Path(files[-1]).write_bytes(data.out)
        said = root.shadow.ask("merge-file", "-p", "-q", *files)
        if said.code > _MOST_CONFLICTS:
            return Side(now, words.binary)
        if said.code:
            return Side(now, words.lines)
    return Side(Entry(mode, root.shadow.store(said.out)))
