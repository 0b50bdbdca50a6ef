"""Splits what became of a file into what a call says it did, and the rest; pure.

A line counts as the call's only if the file really has it, or really lost it. A call that failed
explains nothing, and a line that mixes its text with somebody else's is left to the rest.
"""

from __future__ import annotations

import difflib
import json
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from prsm_files.changes.attribution import Cell, Edit, Replacement

_MOST = 5000  # differing lines in which what is the same is sought: it takes their square


class Part(NamedTuple):
    """One step of what became of a file: what it holds then, None for no file."""

    text: bytes | None
    is_explained: bool


def split(before: bytes | None, after: bytes | None, edit: Edit) -> list[Part]:
    """Return the steps from one text of a file, or its source, to another: the last is `after`."""
    if before == after:
        return []
    if edit.is_removed or after is None:
        return [Part(after, edit.is_removed and after is None)]
    if edit.cell is not None:
        return [Part(after, _is_cell(before, after, edit.cell))]
    if edit.content is not None:
        return _forward(before, after, _bytes(edit.content)) or [Part(after, False)]
    return _replaced(before, after, edit.replacements)


def _replaced(
    before: bytes | None, after: bytes, replacements: Sequence[Replacement]
) -> list[Part]:
    """Explain a file by replacements: of its old text, or else of one that somebody made it."""
    expected, left = _applied(before or b"", replacements)
    parts = _forward(before, after, expected) if expected is not None else []
    if parts and parts[-1].is_explained:
        return parts
    middle = parts[0].text if parts else before
    wanted = left if parts else tuple(replacements)
    earlier = _taken_back(middle or b"", after, wanted)
    if earlier is None or earlier == after:
        return parts or [Part(after, False)]
    rest = [] if earlier == (middle or b"") else [Part(earlier, False)]
    return [*parts[:1], *rest, Part(after, True)]


def _forward(before: bytes | None, after: bytes, expected: bytes) -> list[Part]:
    """Return what leads over a text that a call made to one that is there; [] if it did not."""
    if _keys(_lines(expected)) == _keys(_lines(after)):
        return [Part(after, True)]
    middle = _proven(before or b"", expected, after)
    if middle == (before or b""):
        return []
    return [Part(middle, True), *([] if middle == after else [Part(after, False)])]


def _proven(before: bytes, expected: bytes, after: bytes) -> bytes:
    """Return a text with that part of an expected difference which the file really has."""
    old, new, there = _lines(before), _lines(expected), _lines(after)
    stay = set(_matched(old, there))
    came = _matched(new, there)
    found: list[bytes] = []
    for is_same, (first, last), (start, end) in _hunks(old, new):
        if is_same:
            found += old[first:last]
            continue
        added = [there[came[place]] for place in range(start, end) if place in came]
        if end > start and not any(map(_tells, added)):
            found += old[first:last]  # it did not happen, or nothing is left of it
            continue
        found += [old[place] for place in range(first, last) if place in stay]
        found += added
    return b"".join(found)


def _tells(line: bytes) -> bool:
    return any(chr(char).isalnum() or char > 127 for char in line)


def _applied(
    text: bytes, replacements: Sequence[Replacement]
) -> tuple[bytes | None, tuple[Replacement, ...]]:
    left: list[Replacement] = []
    at = 0  # the line at which the next one that is of lines is sought
    for one in replacements:
        if one.is_lines:
            made = _lines_replaced(text, one, at)
            at = at if made is None else made[1]
            new = None if made is None else made[0]
        else:
            new = _text_replaced(text, one)
        if new is None:
            left.append(one)
        else:
            text = new
    return (None if left and len(left) == len(replacements) else text), tuple(left)


def _text_replaced(text: bytes, one: Replacement) -> bytes | None:
    old, new = (_with_ends_of(text, _bytes(side)) for side in (one.old, one.new))
    if not old:
        return None if text else new
    return text.replace(old, new, -1 if one.is_everywhere else 1) if old in text else None


def _lines_replaced(text: bytes, one: Replacement, at: int) -> tuple[bytes, int] | None:
    old, new = (_lines(_with_ends_of(text, _bytes(side))) for side in (one.old, one.new))
    lines = _lines(text)
    place = _place_of(old, lines, at)
    if place is None:
        return None
    if place and not lines[place - 1].endswith(b"\n"):
        lines[place - 1] += b"\n"
    return b"".join((*lines[:place], *new, *lines[place + len(old) :])), place + len(new)


def _place_of(old: Sequence[bytes], lines: Sequence[bytes], at: int) -> int | None:
    """Return where lines stand, behind a place if they are there; tools overlook some blanks."""
    if not old:
        return len(lines)
    for places in (range(at, len(lines) - len(old) + 1), range(min(at, len(lines)))):
        for key in (_key, bytes.strip):
            wanted, there = [key(line) for line in old], [key(line) for line in lines]
            for place in places:
                if there[place] == wanted[0] and there[place : place + len(old)] == wanted:
                    return place
    return None


def _taken_back(before: bytes, after: bytes, replacements: Sequence[Replacement]) -> bytes | None:
    """Return the text that replacements made this one, if each new text is in it alone."""
    text = after
    for one in reversed(replacements):
        old, new = (_with_ends_of(after, _bytes(side)) for side in (one.old, one.new))
        if new in before or text.count(new) != 1 or not _tells(new):
            return None
        place = text.find(new)
        if one.is_lines and place and text[place - 1 : place] != b"\n":
            return None
        text = text.replace(new, old)
    return text if replacements else None


def _is_cell(before: bytes | None, after: bytes, cell: Cell) -> bool:
    old, new = _cells(before or b"{}"), _cells(after)
    if old is None or new is None or old[0] != new[0]:
        return False
    hunks = [hunk for hunk in _hunks(old[1], new[1]) if not hunk[0]]
    if len(hunks) != 1:
        return False
    _, (first, last), (start, end) = hunks[0]
    if cell.source is None:
        return (last - first, end - start) == (1, 0)
    if last - first > 1 or end - start != 1:
        return False
    return bool(json.loads(new[1][start])["source"] == cell.source)


def _cells(data: bytes) -> tuple[str, list[str]] | None:
    try:
        found: dict[str, Any] = json.loads(data)
        cells = [dict(one) for one in found.pop("cells", [])]
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None
    for one in cells:
        one["source"] = "".join(one.get("source") or ())
    return json.dumps(found, sort_keys=True), [json.dumps(one, sort_keys=True) for one in cells]


def _matched(one: Sequence[bytes], other: Sequence[bytes]) -> dict[int, int]:
    found: dict[int, int] = {}
    for is_same, (first, last), (start, _) in _hunks(one, other):
        if is_same:
            found.update((first + count, start + count) for count in range(last - first))
    return found


Span = tuple[int, int]


def _hunks(one: Sequence[Any], other: Sequence[Any]) -> Iterator[tuple[bool, Span, Span]]:
    old, new = _keys(one), _keys(other)
    start = _same(zip(old, new, strict=False))
    rest = min(len(old), len(new)) - start
    end = min(rest, _same(zip(reversed(old), reversed(new), strict=False)))
    first, last = old[start : len(old) - end], new[start : len(new) - end]
    if start:
        yield True, (0, start), (0, start)
    if max(len(first), len(last)) > _MOST:
        yield False, (start, start + len(first)), (start, start + len(last))
    else:
        for tag, *places in difflib.SequenceMatcher(None, first, last).get_opcodes():
            a, b, c, d = (place + start for place in places)
            yield tag == "equal", (a, b), (c, d)
    if end:
        yield True, (len(old) - end, len(old)), (len(new) - end, len(new))


def _same(pairs: Iterable[tuple[Any, Any]]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _keys(lines: Sequence[Any]) -> list[Any]:
    return [_key(line) if isinstance(line, bytes) else line for line in lines]


def _key(line: bytes) -> bytes:
    """Return a line without its end: tools that write a text may end its lines otherwise."""
    return line.rstrip(b"\r\n")


def _lines(text: bytes) -> list[bytes]:
    lines = text.split(b"\n")
    return [line + b"\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def _with_ends_of(text: bytes, part: bytes) -> bytes:
    if b"\r\n" in text and b"\r\n" not in part:
        return part.replace(b"\n", b"\r\n")
    return part


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")
