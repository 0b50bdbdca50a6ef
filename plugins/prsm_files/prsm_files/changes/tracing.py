"""Changes as a patch that git can read, and which change a line of a file is from."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from prsm_core import ConfigError
from prsm_core.files import text_path
from prsm_files.changes.merging import find_side

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from prsm_core.files import FileChange
    from prsm_files.changes.merging import Wanted
    from prsm_files.shadow.records import Entry
    from prsm_files.shadow.root import Root
    from prsm_files.shadow.worktree import Shadow

_NOTHING = "/dev/null"
_HUNK = re.compile(rb"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", re.MULTILINE)
_PLAIN = ("--unified=0", "--text", "--no-color", "--no-ext-diff", "--no-textconv")


def patch(shadow: Shadow, changes: Iterable[FileChange]) -> str:
    """Return changes one after the other, each with its head. Raises PrsmError."""
    with shadow.at_work():
        roots = [(text_path(change.root), change) for change in changes]
        return "".join(_one(shadow.root(at), one) for at, one in roots if shadow.has_root(at))


def _one(root: Root, change: FileChange) -> str:
    path = change.path
    head = [f"diff --git a/{path} b/{path}"]
    if change.old_mode is None:
        head.append(f"new file mode {change.new_mode}")
    elif change.new_mode is None:
        head.append(f"deleted file mode {change.old_mode}")
    elif change.old_mode != change.new_mode:
        head += [f"old mode {change.old_mode}", f"new mode {change.new_mode}"]
    if change.note:
        return "\n".join([*head, f"# its content is not kept: {change.note}", ""])
    old = _NOTHING if change.old_mode is None else f"a/{path}"
    new = _NOTHING if change.new_mode is None else f"b/{path}"
    if change.before == change.after:
        return "\n".join([*head, ""])
    empty = root.shadow.store(b"")
    options = ("--no-color", "--no-ext-diff", "--no-textconv")
    blobs = (change.before or empty, change.after or empty)
    said = root.shadow.run("diff", *options, *blobs).decode("utf-8", "backslashreplace")
    start = said.find("\n@@")
    if start >= 0:
        return "\n".join([*head, f"--- {old}", f"+++ {new}", said[start + 1 :]])
    return "\n".join([*head, "Binary files differ\n" if said else ""])


class Origin(NamedTuple):
    """Where a line is from: a change by its id, or none of them."""

    change: str | None
    is_older: bool = False  # than all of them; else something between or after them made it


def find_origin(shadow: Shadow, changes: Sequence[Wanted], line: int) -> Origin:
    """Return which change, of those that stand, newest first, made a line. Raises ConfigError."""
    with shadow.at_work():
        newest = changes[0]
        if not shadow.has_root(newest.root):
            raise ConfigError(f"the repository {newest.root} is gone", code="no_such_line")
        file = _File(shadow.root(newest.root), newest.path)
        text = find_side(file.root, newest.inner).entry
        file.check(text, line)
        for change in changes:
            there = file.before(change.after, text, line)
            if there is None:
                return Origin(None)
            earlier = file.before(change.before, change.after, there)
            if earlier is None:
                return Origin(change.id)
            text, line = change.before, earlier
        return Origin(None, is_older=True)


class _File:
    def __init__(self, root: Root, path: str) -> None:
        self.root = root
        self._path = path

    def check(self, entry: Entry | None, line: int) -> None:
        data = b"" if entry is None else self.root.shadow.blob(entry.blob)
        count = data.count(b"\n") + (data[-1:] not in {b"", b"\n"})
        if not 0 < line <= count:
            raise ConfigError(
                f"{self._path} has no line {line}",
                hint=f"it has {count} lines now" if entry is not None else "it is not there now",
                code="no_such_line",
            )

    def before(self, old: Entry | None, new: Entry | None, line: int) -> int | None:
        """Return the number that a line of `new` had in `old`; None: it was not there."""
        if old is None or new is None:
            return None
        for entry in (old, new):
            if not entry.blob:
                raise self._unknown(f"what it held is not kept: {entry.why}")
        if old.blob == new.blob:
            return line
        said = self.root.shadow.ask("diff", *_PLAIN, old.blob, new.blob)
        if said.code:
            raise self._unknown("what it held is gone: the repository has thrown it away")
        shift = 0
        for hunk in _HUNK.finditer(said.out):
            _, removed, first, added = (1 if one is None else int(one) for one in hunk.groups())
            if line < first + (not added):  # one that only removes names the line before it
                break
            if line < first + added:
                return None
            shift += removed - added
        return line + shift

    def _unknown(self, why: str) -> ConfigError:
        return ConfigError(
            f"lines of {self._path} cannot be followed: {why}",
            hint="leave the line out: the newest change of the file is known",
            code="unknown_content",
        )
