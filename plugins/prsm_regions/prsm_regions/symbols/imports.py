"""Import paths: which place of the tree a text speaks of, and whose region that is."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prsm_regions.symbols.grammars import without_suffix

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Place = tuple[str, ...]

_QUOTED = re.compile(r"""["'`]([^"'`\s]+)["'`]""")
_FROM = re.compile(r"\b(?:from|in|of|at|import|use|package|under|inside)\s+([\w./:@~-]+)")
_PATH = re.compile(r"(?<![\w/.])(/?(?:[\w@.-]+/)+[\w@.-]*|\w+(?:(?:\.|::)\w+)+)")
_ROOTS = frozenset({"crate", "self", "super", "", ".", "..", "@", "~"})


def places(context: str) -> list[Place]:
    """Return the places that a text names, in parts: paths, modules of Python, Rust, Go, Java."""
    found: dict[Place, None] = {}
    for pattern in (_QUOTED, _FROM, _PATH):
        for match in pattern.finditer(context):
            for place in _parts(match.group(1)):
                found[place] = None
    return list(found)


def _parts(text: str) -> Iterable[Place]:
    """Return a path as parts; one with dots may be a module, or a file."""
    text = text.strip().rstrip(".,;:?!)")
    if "/" in text:
        yield _clean(without_suffix(text).split("/"))
    elif "::" in text:
        yield _clean(text.split("::"))
    else:
        plain = without_suffix(text)
        yield _clean(plain.split("/") if plain != text else text.split("."))


def _clean(parts: Iterable[str]) -> Place:
    return tuple(part for part in parts if part not in _ROOTS)


def owner_of(regions: Mapping[str, str], context: str) -> str | None:
    """Return whose region a text speaks of, None where that is nobody's, or not to be told.

    `regions` are owners by region. The region that agrees with most parts of a place wins: it
    stands in the place (`core` in `../../core/src/auth`), or ends where the place begins
    (`src/main/java/com/acme/core` of `com.acme.core.Auth`).
    """
    named = places(context)
    scores = {
        region: max((_agreement(_region(region), p) for p in named), default=(0, 0))
        for region in regions
    }
    top = max(scores.values(), default=(0, 0))
    owners = {regions[region] for region, score in scores.items() if score == top}
    return owners.pop() if top > (0, 0) and len(owners) == 1 else None


def _region(region: str) -> Place:
    plain = region.strip("/").removesuffix("/**").removesuffix("/*")
    return _clean(without_suffix(plain).split("/"))


def _agreement(region: Place, place: Place) -> tuple[int, int]:
    """Return how many parts agree, and how near to the place's beginning."""
    for start in range(len(place) - len(region) + 1):
        if region and place[start : start + len(region)] == region:
            return len(region), -start
    for size in range(min(len(region), len(place)), 0, -1):
        if region[-size:] == place[:size]:
            return size, -1
    return 0, 0
