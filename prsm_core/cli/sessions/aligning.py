"""Finds what stands in both of two lists, in the same order: pure."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    Pair = tuple[int, int]  # where something stands in one list and in the other

MOST = 4_000_000  # comparisons of each place with each, which take a moment


def aligned(ours: Sequence[str], theirs: Sequence[str], *, most: int = MOST) -> Iterator[Pair]:
    """Yield the places of what is in both lists, in order; each is in one pair at most.

    What both begin with, and end with, is paired as it stands: a fork and its origin share it. The
    rest is looked through closely where that takes no more than `most` comparisons.
    """
    least = min(len(ours), len(theirs))
    head = next((n for n in range(least) if ours[n] != theirs[n]), least)
    rest = least - head
    tail = next((n for n in range(rest) if ours[-1 - n] != theirs[-1 - n]), rest)
    ends = len(ours) - tail, len(theirs) - tail
    yield from ((n, n) for n in range(head))
    middle = ours[head : ends[0]], theirs[head : ends[1]]
    is_short = len(middle[0]) * len(middle[1]) <= most
    pairs = _of_short(*middle) if is_short else _of_long(*middle)
    yield from ((head + i, head + j) for i, j in pairs)
    yield from ((ends[0] + n, ends[1] + n) for n in range(tail))


def _of_short(ours: Sequence[str], theirs: Sequence[str]) -> Iterable[Pair]:
    blocks = SequenceMatcher(None, ours, theirs, autojunk=False).get_matching_blocks()
    return ((block.a + n, block.b + n) for block in blocks for n in range(block.size))


def _of_long(ours: Sequence[str], theirs: Sequence[str]) -> Iterable[Pair]:
    """Return the pairs of long lists, in time that hardly grows faster than they do.

    What stands in a list often is told apart by its number: the third time is the third time. So
    each thing is in each list once, and the longest rising row of places are the pairs.
    """
    places = {key: place for place, key in enumerate(_numbered(theirs))}
    ends: list[int] = []  # the place at which a row of so many can end first
    rows: list[tuple[Pair, object] | None] = []  # and that row, from its end
    for i, key in enumerate(_numbered(ours)):
        if (j := places.get(key)) is not None:
            length = bisect_left(ends, j)
            before = rows[length - 1] if length else None
            ends[length : length + 1] = [j]
            rows[length : length + 1] = [((i, j), before)]
    found: list[Pair] = []
    row: object = rows[-1] if rows else None
    while isinstance(row, tuple):
        pair, row = row
        found.append(pair)
    return reversed(found)


def _numbered(keys: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Yield each key with the number of times that it came before."""
    seen: Counter[str] = Counter()
    for key in keys:
        yield key, seen[key]
        seen[key] += 1
