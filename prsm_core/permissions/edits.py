"""What an edit would change: counts, and lines to read.

What a tool's arguments leave out is read from the files before the edit, inside the workspace, up
to a size, and not from files of secrets: it goes into an event.
"""

from __future__ import annotations

import json
import os
import re
import stat
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from prsm_core.domain.record import Record
from prsm_core.permissions.changes import Change, change_of, compared
from prsm_core.policies.within import is_within

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

LARGEST = 1 << 20  # bytes of a file that is read
EDIT_TOOLS = frozenset({"Edit", "MultiEdit", "NotebookEdit", "Write"})
# What tools call the text that is replaced, the one in its place, all of a file, and the file.
OLD, NEW = ("old_string", "find", "old_text"), ("new_string", "replace", "new_text", "new_source")
WHOLE = ("content", "text")
_PATHS = ("file_path", "path")
_MARKS = ("@@", "*** ")  # of a unified diff, of a patch as Codex writes it
_FILE = re.compile(r"\*\*\* (Add|Delete) File: (.+)")


class WorkspaceFiles(Record, frozen=True):
    """The files of a workspace; paths are relative to `cwd`."""

    cwd: str
    workspace: str

    def text(self, path: str) -> str | None:
        """Return what is in a file, nothing where there is none, None where it is not looked at."""
        from prsm_core.policies.names import secret_part  # with the first path: see the room

        try:
            found = os.path.realpath(Path(self.cwd, path))
            if not Path(found).exists():
                return ""
            about = Path(found).stat()
        except (OSError, ValueError):  # a name that no file can have, or a folder that is closed
            return None
        root = os.path.realpath(self.workspace)
        if not is_within(found, root) or secret_part(found[len(root) :]):
            return None
        if not stat.S_ISREG(about.st_mode):
            return None
        return _read(Path(found), about.st_size)


def _read(file: Path, size: int) -> str | None:
    if size > LARGEST:
        return None
    try:
        with file.open("rb") as opened:
            return opened.read(LARGEST).decode()
    except (OSError, UnicodeDecodeError):  # it is no text
        return None


def find_change(
    tool: str, arguments: Mapping[str, Any], files: WorkspaceFiles | None = None
) -> Change | None:
    """Return what an edit changes, None if unknown. Without `files` only arguments count."""
    if tool not in EDIT_TOOLS:
        return None
    edits = arguments.get("edits")
    if isinstance(edits, str):
        edits = _parsed(edits)
    if isinstance(edits, list) and edits:
        return _of_edits([edit for edit in edits if isinstance(edit, dict)], arguments, files)
    if isinstance(diff := arguments.get("diff"), str) and diff.strip():
        return _of_diff(diff.splitlines(), arguments, files)
    if (change := _of_edits([arguments], arguments, files)) is not None:
        return change
    text = _text(arguments, WHOLE)
    return None if text is None else _of_whole(text.splitlines(), arguments, files)


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _text(arguments: Mapping[str, Any], names: Sequence[str]) -> str | None:
    return next((arguments[name] for name in names if isinstance(arguments.get(name), str)), None)


def _before(arguments: Mapping[str, Any], files: WorkspaceFiles | None) -> str | None:
    """Return what is in the one file that a call names, None where that is not known."""
    path = _text(arguments, _PATHS)
    return None if files is None or not path else files.text(path)


def _of_edits(
    edits: Sequence[Mapping[str, Any]], arguments: Mapping[str, Any], files: WorkspaceFiles | None
) -> Change | None:
    found = [edit for edit in map(_Replacement.find, edits) if edit is not None]
    if not found:
        return None
    before = _before(arguments, files)
    after = _replaced(before, found) if before else None
    if before and after is not None:
        return change_of(compared(before.splitlines(), after.splitlines()))
    told = (compared(edit.old.splitlines(), edit.new.splitlines()) for edit in found)
    return change_of([line for lines in told for line in lines])


class _Replacement(Record, frozen=True):
    old: str
    new: str
    is_everywhere: bool

    @classmethod
    def find(cls, edit: Mapping[str, Any]) -> Self | None:
        old, new = _text(edit, OLD), _text(edit, NEW)
        if old is None and new is None:
            return None
        return cls(old or "", new or "", edit.get("replace_all") is True)


def _replaced(text: str, edits: Iterable[_Replacement]) -> str | None:
    """Return a text after all edits of it; None where one does not fit it."""
    for edit in edits:
        if not edit.old or edit.old not in text:
            return None
        text = text.replace(edit.old, edit.new, -1 if edit.is_everywhere else 1)
    return text


def _of_whole(
    after: list[str], arguments: Mapping[str, Any], files: WorkspaceFiles | None
) -> Change:
    before = _before(arguments, files)
    if before is not None:
        return change_of(compared(before.splitlines(), after))
    replaces = files is not None and _text(arguments, _PATHS) is not None
    return change_of([f"+{line}" for line in after], is_whole=True, replaces=replaces)


def _of_diff(
    lines: list[str], arguments: Mapping[str, Any], files: WorkspaceFiles | None
) -> Change:
    if not any(line.startswith((*_MARKS, "+", "-")) for line in lines):
        paths = arguments.get("paths")
        named = {"path": paths[0]} if isinstance(paths, list) and len(paths) == 1 else {}
        return _of_whole(lines, named, files)  # of a new file, as it is
    told, replaces = _with_files(lines, files)
    return change_of(told, heads=_heads(told), replaces=replaces)


def _with_files(lines: list[str], files: WorkspaceFiles | None) -> tuple[list[str], bool]:
    """Return a patch with the lines of files it removes or rewrites, and whether any are unread."""
    told: list[str] = []
    replaces, at = False, 0
    while at < len(lines):
        told.append(lines[at])
        named = _FILE.fullmatch(lines[at].rstrip())
        before = "" if named is None or files is None else files.text(named[2])
        at += 1
        replaces |= before is None
        tells = "".join(lines[at : at + 1]).startswith("-")  # what is taken away, by itself
        if named is not None and before and not tells:
            body = list(takewhile(lambda line: line.startswith("+"), lines[at:]))
            at += len(body)
            told += compared(before.splitlines(), [line[1:] for line in body])
    return told, replaces


def _heads(lines: Sequence[str]) -> set[int]:
    """Return which lines name the files of a unified diff; all others are of its files."""
    return {
        number + side
        for number, line in enumerate(lines[:-1])
        if line.startswith("--- ") and lines[number + 1].startswith("+++ ")
        for side in (0, 1)
    }
