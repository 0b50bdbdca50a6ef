"""A patch of one file as lines with their numbers, one below the other or beside each other."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

from prsm_core.kit import escape_prose
from prsm_tui.model.spoken import LOST, MOST

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ADDED, REMOVED, SAME, HUNK, ABOUT = "+", "-", " ", "@", "#"
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_UNTOLD = ("diff --git ", "--- ", "+++ ")  # what the screen says beside a patch


@dataclass(frozen=True, slots=True)
class PatchLine:
    """A line: its kind, its text as it can be drawn, and its number before and after, from 1.

    Of a kind `@` it begins a hunk, of a kind `#` it says something about the file.
    """

    kind: str
    text: str
    old: int | None = None
    new: int | None = None

    @property
    def is_content(self) -> bool:
        """Whether it is a line of the file."""
        return self.kind in {ADDED, REMOVED, SAME}


@dataclass(frozen=True, slots=True)
class Beside:
    """What stands in one row: before and after, the same in one column; None: there is no line."""

    left: PatchLine | None
    right: PatchLine | None

    @property
    def kind(self) -> str:
        """The kind of its lines; `-` and `+` where a line was changed."""
        return "".join(dict.fromkeys(one.kind for one in (self.left, self.right) if one))

    def line(self, side: str) -> PatchLine | None:
        """Return the line that a side, left or right, means: the other one where it has none."""
        first, second = (self.left, self.right) if side == "left" else (self.right, self.left)
        return first or second


def read_patch(patch: str) -> Sequence[PatchLine]:
    """Return the lines of a patch of one file; what is too long is cut, which is said."""
    lines = list(_read(patch[:MOST]))
    if len(patch) > MOST:
        left = f"{LOST} {len(patch) - MOST:,} more characters: prsm changes diff"
        lines.append(PatchLine(ABOUT, left))
    return lines


def beside(lines: Sequence[PatchLine]) -> Sequence[Beside]:
    """Return lines in two columns: removed ones stand left of those that came in their place."""
    rows: list[Beside] = []
    removed: list[PatchLine] = []
    added: list[PatchLine] = []

    def close() -> None:
        rows.extend(Beside(left, right) for left, right in zip_longest(removed, added))
        removed.clear()
        added.clear()

    for line in lines:
        if line.kind == REMOVED:
            if added:
                close()
            removed.append(line)
        elif line.kind == ADDED:
            added.append(line)
        else:
            close()
            rows.append(Beside(line, line))
    close()
    return rows


def differing(before: str, after: str) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the part of each text that the other does not have: where it begins and ends."""
    shorter = min(len(before), len(after))
    start = next((n for n in range(shorter) if before[n] != after[n]), shorter)
    tail = 0
    while tail < shorter - start and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    return (start, len(before) - tail), (start, len(after) - tail)


def _read(patch: str) -> Iterator[PatchLine]:
    old = new = old_left = new_left = 0
    for raw in patch.split("\n"):
        text = escape_prose(raw)
        kind = raw[:1]
        if kind == SAME and old_left and new_left:
            yield PatchLine(SAME, text[1:], old, new)
            old, new, old_left, new_left = old + 1, new + 1, old_left - 1, new_left - 1
        elif kind == REMOVED and old_left:
            yield PatchLine(REMOVED, text[1:], old)
            old, old_left = old + 1, old_left - 1
        elif kind == ADDED and new_left:
            yield PatchLine(ADDED, text[1:], None, new)
            new, new_left = new + 1, new_left - 1
        elif match := _HUNK.match(raw):
            old, new = int(match[1]), int(match[3])
            old_left, new_left = (1 if size is None else int(size) for size in (match[2], match[4]))
            yield PatchLine(HUNK, text)
        elif raw and not raw.startswith(_UNTOLD):
            yield PatchLine(ABOUT, text.removeprefix("\\ ").removeprefix("# "))
