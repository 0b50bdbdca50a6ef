"""A change of files as lines: how many come and go, and how they read."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Any

from prsm_core.domain.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_KEPT = 400  # lines: more is counted, and not kept
_WIDEST = 1000  # characters of a line that is kept
_MOST = 1000  # differing lines in which what is the same is sought; more count as replaced


class Change(Record, frozen=True, kw_only=True):
    """Lines that an edit adds and takes away, and how they read.

    `is_whole`: all of a file is written, and its old lines are not counted; `replaces`: there is a
    file, written anew or taken away, whose lines are not counted. `lines` begin with +, - or a
    blank, or are a diff's own; there may be `more`.
    """

    added: int
    removed: int
    is_whole: bool = False
    replaces: bool = False
    lines: tuple[str, ...] = ()
    more: int = 0

    @property
    def counts(self) -> str:
        """In words: `+3 -1`, `+40, the whole file`, `+40, replaces a file`."""
        if self.is_whole:
            return f"+{self.added}, {'replaces a file' if self.replaces else 'the whole file'}"
        return f"+{self.added} -{self.removed}{' and a whole file' if self.replaces else ''}"

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "added": self.added,
            "removed": None if self.is_whole else self.removed,
            **({"replaces": True} if self.replaces else {}),
            "lines": list(self.lines),
            "more": self.more,
        }

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> Change:
        """Build it from the values of `to_dict`."""
        removed = told.get("removed")
        return cls(
            added=told["added"],
            removed=removed or 0,
            is_whole=removed is None,
            replaces=bool(told.get("replaces")),
            lines=tuple(told.get("lines") or ()),
            more=told.get("more") or 0,
        )


def compared(before: Sequence[str], after: Sequence[str]) -> list[str]:
    """Return the lines that differ, with one that is the same beside them."""
    start = _same(zip(before, after, strict=False))
    rest = min(len(before), len(after)) - start
    end = min(rest, _same(zip(reversed(before), reversed(after), strict=False)))
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    if max(len(old), len(new)) > _MOST:
        return [*(f"-{line}" for line in old), *(f"+{line}" for line in new)]
    first, last = before[max(0, start - 1) : start], before[len(before) - end :][:1]
    sides = [*first, *old, *last], [*first, *new, *last]
    import difflib

    diff = list(difflib.unified_diff(*sides, lineterm="", n=1))
    return [line for line in diff[2:] if not line.startswith("@@")]


def _same(pairs: Iterable[tuple[str, str]]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def change_of(
    lines: Sequence[str],
    *,
    is_whole: bool = False,
    replaces: bool = False,
    heads: Iterable[int] = (),
) -> Change:
    """Return a change of these lines; those of the numbers `heads` name files and do not count."""
    left_out = set(heads)
    told = [line for number, line in enumerate(lines) if number not in left_out]
    return Change(
        added=sum(line.startswith("+") for line in told),
        removed=sum(line.startswith("-") for line in told),
        is_whole=is_whole,
        replaces=replaces,
        lines=tuple(line[:_WIDEST] for line in lines[:_KEPT]),
        more=max(0, len(lines) - _KEPT),
    )
