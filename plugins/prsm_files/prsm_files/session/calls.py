"""The writing calls of a run, as far as a change that is found next may be theirs.

They are on the disk, too: whoever goes on after a crash finds out what those had changed.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from prsm_core.permissions.edits import EDIT_TOOLS, NEW, OLD, WHOLE
from prsm_files.changes.attribution import Cell, Edit, Replacement, WritingCall
from prsm_files.shadow.files import put_json, read_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from prsm_core.files import WritingCall as Running

UNNAMED = ""  # the id of a call that its provider has not named

_PATHS = ("file_path", "notebook_path", "path")
_EVERYWHERE = ("replace_all", "allow_multiple")
_FILE = re.compile(r"\*\*\* (Add|Update|Delete) File: (.+)")
_MOVE = re.compile(r"\*\*\* Move to: (.+)")


class OpenCalls:
    """Owns calls that run, and those that ended since the last look; `tick` counts moments up."""

    def __init__(self, tick: Callable[[], int]) -> None:
        self._tick = tick
        self._running: list[tuple[Running, WritingCall]] = []
        self._ended: list[WritingCall] = []
        self._file: Path | None = None

    @property
    def all(self) -> Sequence[WritingCall]:
        """All that may have made a change since the last look."""
        return [*self._ended, *(call for _, call in self._running)]

    @property
    def have_ended(self) -> bool:
        """Whether some have ended since the last look began."""
        return bool(self._ended)

    def keep_in(self, file: Path, left: Sequence[WritingCall]) -> None:
        """Keep them in a file from now on, with those `left` by a dead process. Raises OSError."""
        self._ended += left
        self._file = file
        try:
            self._write()
        except OSError:
            self._file = None
            raise

    def begins(self, one: Running, **known: Any) -> None:
        """Take note of a call that may write from now on, as `WritingCall` knows it."""
        # Whatever clock an engine has: files are stamped by that of the system.
        call = WritingCall(
            agent=one.agent,
            call=one.call or UNNAMED,
            began=self._tick(),
            span=(time.time(), inf),
            **known,
        )
        self._running.append((one, call))
        self._write()

    def is_named(self, old: Running, new: Running, edits: tuple[Edit, ...]) -> None:
        """Take note of what a call is called, and of what it says it does."""
        for number, (one, call) in enumerate(self._running):
            if one is old:
                known = replace(call, call=new.call or UNNAMED, edits=call.edits or edits)
                self._running[number] = new, known

    def owns(self, one: Running, owned: tuple[str, ...]) -> None:
        """Take note of the files that a call writes alone from now on. Raises OSError."""
        for number, (running, call) in enumerate(self._running):
            if running is one:
                known = replace(call, region=owned, leased=owned, is_apart=True, began=self._tick())
                self._running[number] = one, known
                self._write()

    def ends(self, one: Running, *, has_run: bool) -> WritingCall | None:
        """Take note of a call that writes no more, and return it if it has run at all."""
        for number, (running, call) in enumerate(self._running):
            if running is one:
                del self._running[number]
                if not has_run:
                    return None
                ended = replace(call, ended=self._tick(), span=(call.span[0], time.time()))
                self._ended.append(ended)
                return ended
        return None

    def looked(self, moment: int) -> None:
        """Forget those that had ended when a look began that has found what they did."""
        before = len(self._ended)
        self._ended = [one for one in self._ended if one.ended is None or one.ended >= moment]
        if len(self._ended) != before:
            self._write()

    def forget(self) -> None:
        """Know none any more: nothing of them runs. Raises OSError."""
        self._running.clear()
        self._ended.clear()
        self._write()

    def _write(self) -> None:
        if self._file is not None:
            # What they say they do is not kept: a file may be long, and deaths are few.
            put_json(self._file, [replace(one, edits=()) for one in self.all])


def read_calls(file: Path) -> Sequence[WritingCall]:
    """Return the calls that a process which has died had at work; none where that is not known."""
    calls = read_json(file, list[WritingCall]) or ()
    return [replace(one, began=0, ended=0) for one in calls]  # before all looks of this process


def edits_of(
    tool: str, arguments: Mapping[str, Any], paths: Sequence[str] = ()
) -> tuple[Edit, ...]:
    """Return what a call says it does to files: one of `paths`, if its arguments name none."""
    if tool not in EDIT_TOOLS:
        return ()
    if isinstance(diff := arguments.get("diff"), str):
        return tuple(_of_patch(diff.removesuffix("\n").split("\n")))
    path = _text(arguments, _PATHS) or (paths[0] if len(paths) == 1 else None)
    edit = None if path is None else _of_file(path, arguments)
    return () if edit is None else (edit,)


def _of_file(path: str, arguments: Mapping[str, Any]) -> Edit | None:
    if "new_source" in arguments or arguments.get("edit_mode") == "delete":
        is_gone = arguments.get("edit_mode") == "delete"
        return Edit(path=path, cell=Cell(None if is_gone else str(arguments["new_source"])))
    given = arguments.get("edits")
    edits = _parsed(given) if isinstance(given, str) else given
    told = edits if isinstance(edits, (list, tuple)) and edits else [arguments]
    found = [_replacement(one) for one in told if isinstance(one, Mapping)]
    replacements = tuple(one for one in found if one is not None)
    if replacements:
        return Edit(path=path, replacements=replacements)
    content = _text(arguments, WHOLE)
    return None if content is None else Edit(path=path, content=content)


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _replacement(told: Mapping[str, Any]) -> Replacement | None:
    old, new = _text(told, OLD), _text(told, NEW)
    if old is None and new is None:
        return None
    count = told.get("expected_replacements")
    is_several = isinstance(count, int) and count > 1
    is_everywhere = is_several or any(told.get(name) is True for name in _EVERYWHERE)
    return Replacement(old or "", new or "", is_everywhere=is_everywhere)


def _text(told: Mapping[str, Any], names: Sequence[str]) -> str | None:
    return next((told[name] for name in names if isinstance(told.get(name), str)), None)


def _of_patch(lines: Sequence[str]) -> Iterator[Edit]:
    """Yield what each part of a patch does; `*** Update File:` and unified diffs are read."""
    place = 0
    while place < len(lines):
        head = _FILE.fullmatch(lines[place].rstrip())
        is_unified = lines[place].startswith("--- ") and _is_head(lines, place + 1)
        place += 1
        if head is not None:
            end = _end_of(lines, place)
            yield from _of_part(head[1], head[2].strip(), lines[place:end])
            place = end
        elif is_unified:
            end = _end_of(lines, place + 1)
            yield _updated(lines[place][4:].split("\t")[0].rstrip(), lines[place + 1 : end])
            place = end


def _is_head(lines: Sequence[str], place: int) -> bool:
    return place < len(lines) and lines[place].startswith("+++ ")


def _end_of(lines: Sequence[str], place: int) -> int:
    while place < len(lines):
        line = lines[place]
        if _FILE.fullmatch(line.rstrip()) or line.startswith("*** End Patch"):
            return place
        if line.startswith("--- ") and _is_head(lines, place + 1):
            return place
        place += 1
    return place


def _of_part(what: str, path: str, lines: Sequence[str]) -> Iterator[Edit]:
    if what == "Delete":
        yield Edit(path=path, is_removed=True)
    elif what == "Add":
        yield Edit(path=path, content="".join(f"{line[1:]}\n" for line in lines if line[:1] == "+"))
    elif lines and (move := _MOVE.fullmatch(lines[0].rstrip())):
        yield Edit(path=path, is_removed=True)
        yield _updated(move[1].strip(), lines[1:], source=path)
    else:
        yield _updated(path, lines)


def _updated(path: str, lines: Sequence[str], source: str | None = None) -> Edit:
    """Return the edit that the hunks of a file are: lines in the place of others."""
    hunks: list[tuple[list[str], list[str]]] = []
    is_headed = bool(lines) and lines[0].startswith("--- ") and _is_head(lines, 1)
    for line in lines[2 * is_headed :]:
        if line.startswith("@@") or not hunks:
            hunks.append(([], []))
        if line.startswith(("@@", "\\", "*** ")):
            continue
        old, new = hunks[-1]
        if line[:1] != "+":
            old.append(line[1:])
        if line[:1] != "-":
            new.append(line[1:])
    replacements = tuple(
        Replacement(_joined(old), _joined(new), is_lines=True) for old, new in hunks if old or new
    )
    return Edit(path=path, replacements=replacements, source=source)


def _joined(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
