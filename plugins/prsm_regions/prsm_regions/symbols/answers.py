"""Answers: what has a name, best first, and what is near where nothing has it."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

import msgspec

from prsm_regions.symbols.definitions import MAX_TEXT, Definition, cut
from prsm_regions.symbols.grammars import without_suffix

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_SEPARATORS = re.compile(r"::|[.#/\\]|->")
MAX_FOUND = 200  # of one name; `__init__` has thousands
_MAX_SHOWN = 5
NEAR = 5
LENGTHS = 4  # by how many characters a near name may be longer or shorter
_NEAR_ENOUGH = 0.6


class Found(msgspec.Struct, frozen=True, gc=False):
    """A definition, where it is."""

    path: str
    definition: Definition

    def to_text(self) -> str:
        """Return `kind name (path:start-end)`, and below it the definition up to its body."""
        one = self.definition
        name = f"{one.scope}.{one.name}" if one.scope else one.name
        return f"{one.kind} {name} ({self.path}:{one.start}-{one.end})\n{one.text}"


def split_name(name: str) -> tuple[tuple[str, ...], str]:
    """Return what a name is in, as parts, and its own: `a.B::c` is (a, B), c."""
    parts = [part for part in _SEPARATORS.split(name.strip().removesuffix("()")) if part]
    return (tuple(parts[:-1]), parts[-1]) if parts else ((), "")


def best(found: Iterable[Found], within: Sequence[str], near: Sequence[str] = ()) -> list[Found]:
    """Return what fits best first: those in `within`, near these paths, of everybody's sight."""
    found = list(found)
    if len(found) == 1:
        return found
    ranked = sorted(found, key=lambda one: _rank(one, within, near))
    fitting = [one for one in ranked if _fits(one, within)]
    return fitting or ranked


def _rank(one: Found, within: Sequence[str], near: Sequence[str]) -> tuple[object, ...]:
    defined = one.definition
    is_test = any(part.startswith("test") for part in one.path.split("/"))
    # A place such as `core/auth` may be anywhere in the path, by whole names.
    path = f"/{without_suffix(one.path)}/{one.path.rpartition('/')[2]}/"
    by_path = not any(f"/{place.strip('/')}/" in path for place in near)
    depth = defined.scope.count(".") + bool(defined.scope)
    return (not _fits(one, within), by_path, is_test, depth, defined.kind == "impl", one.path)


def _fits(one: Found, within: Sequence[str]) -> bool:
    """Return whether it is in such a scope, or in a module whose path ends with these parts."""
    if not within:
        return True
    whole = [*without_suffix(one.path).split("/"), *filter(None, one.definition.scope.split("."))]
    return whole[-len(within) :] == list(within)


def render(found: Sequence[Found]) -> str:
    """Return an answer of 2000 bytes at most; what does not fit is counted."""
    shown: list[str] = []
    size = 0
    for one in found[:_MAX_SHOWN]:
        text = one.to_text()
        size += len(text.encode("utf-8", "replace")) + 1
        if shown and size > MAX_TEXT - 100:
            break
        shown.append(text)
    rest = len(found) - len(shown)
    more = [f"({rest} more of this name; say in which file)"] if rest else []
    return "\n".join([cut("\n".join(shown), MAX_TEXT - 60), *more])


def near_names(name: str, names: Iterable[str]) -> list[str]:
    """Return the names that are most like one, best first."""
    wanted = name.lower()
    pairs = _pairs(wanted)
    scored: list[tuple[float, str]] = []
    for other in names:
        lower = other.lower()
        common = 2 * len(pairs & _pairs(lower)) / max(1, len(lower) + len(wanted) - 2)
        if common >= _NEAR_ENOUGH / 2 or lower == wanted:
            scored.append((common, other))
    top = sorted(scored, reverse=True)[:50]
    by_likeness = sorted(
        ((SequenceMatcher(None, wanted, other.lower()).ratio(), other) for _, other in top),
        key=lambda one: (-one[0], one[1]),
    )
    return [other for ratio, other in by_likeness[:NEAR] if ratio >= _NEAR_ENOUGH]


def _pairs(text: str) -> set[str]:
    return {text[place : place + 2] for place in range(len(text) - 1)}
