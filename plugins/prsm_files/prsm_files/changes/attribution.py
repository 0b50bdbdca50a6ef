"""Whose a change is, decided from the calls that could have made it and from nothing else.

A call could have made a change if it ran while the change came to be, and may write there. Only
what its edits explain is known to be its own. The rest is `possible`: a person may have written it.

Paths are text as `os.fsdecode` gives it, from the top of the folder. Moments are whole numbers that
their owner counts up: an order, which no clock can set back.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from prsm_core.files import NAMED, OUTSIDE, POSSIBLE, REGION, SHARED, SOLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from prsm_files.shadow.records import Entry


NOBODY = ""  # as an author: a person, or another program


class Replacement(Struct, frozen=True, gc=False):
    """A text that takes the place of another; of lines, from the last match on, or at the end."""

    old: str
    new: str
    is_everywhere: bool = False  # wherever the old text is, and not once
    is_lines: bool = False


class Cell(Struct, frozen=True, gc=False):
    """A cell of a notebook that is written anew, added or removed; `source` None: removed."""

    source: str | None


class Edit(Struct, frozen=True, gc=False, kw_only=True):
    """What a call says it does to one file."""

    path: str
    content: str | None = None  # all that it holds then; None: see `replacements`
    replacements: tuple[Replacement, ...] = ()  # in their order
    cell: Cell | None = None  # of a notebook
    is_removed: bool = False
    source: str | None = None  # the file whose text it begins with, where that is moved here


class WritingCall(Struct, frozen=True, gc=False, kw_only=True):
    """A call that may write, as far as it is known where."""

    agent: str
    call: str
    turn: str | None = None
    paths: frozenset[str] = frozenset()  # it said it writes, and no others; empty: it may write any
    region: tuple[str, ...] | None = None  # the folders that it may write; None: all
    barred: tuple[str, ...] = ()  # folders that others have for themselves
    leased: tuple[str, ...] = ()  # folders that its agent has for itself, and those below it
    is_apart: bool = False  # it brings over what its agent did in a worktree of its own
    edits: tuple[Edit, ...] = ()
    began: int
    ended: int | None = None
    span: tuple[float, float] = (0.0, inf)  # Unix seconds by the kernel's clock of files


class Found(Struct, frozen=True, gc=False, kw_only=True):
    """One change of one path, that came to be after `since` and not after `until`."""

    path: str
    root: str  # the repository that it is in, from the top of the folder; "" is the folder's own
    before: Entry | None
    after: Entry | None
    since: int
    until: int
    added: int | None = None  # lines; None: it is no text, or not kept
    removed: int | None = None
    written_at: float | None = None  # what stands there now, Unix seconds
    by: tuple[WritingCall, ...] = ()  # whose edits explain all of it, the newest first

    @property
    def kind(self) -> str:
        """What became of the path: added, deleted, or modified."""
        if self.before is None:
            return "added"
        return "modified" if self.after is not None else "deleted"


class Attributed(Struct, frozen=True, gc=False, kw_only=True):
    """Whose a change is."""

    found: Found
    how: str  # named, sole, region, shared, possible or outside
    calls: tuple[WritingCall, ...] = ()  # that may have made it, the likeliest first
    beside: tuple[str, ...] = ()  # who else is on the file, which makes a conflict; "" is outside


def attribute(
    found: Iterable[Found],
    calls: Sequence[WritingCall],
    *,
    hands: Hands | None = None,
    are_one: Callable[[str, str], bool] = lambda one, other: one == other,
) -> list[Attributed]:
    """Return whose each change is; `hands` learn of it, and who `are_one` is in nobody's way."""
    all_ = [_attribute(one, [call for call in calls if could_make(call, one)]) for one in found]
    on: dict[str, set[str]] = {}
    for one in all_:
        own, path = authors(one), one.found.path
        on.setdefault(path, set()).update(own)
        if hands is not None:
            on[path].update(hands.since(path, own))
            hands.note(path, own)
    return [
        replace(one, beside=beside)
        if (beside := _beside(authors(one), on[one.found.path], are_one))
        else one
        for one in all_
    ]


class Hands:
    """Knows who has changed each path, in order; `is_at_work` tells of an agent by its id."""

    def __init__(self, is_at_work: Callable[[str], bool]) -> None:
        self._is_at_work = is_at_work
        self._on: dict[str, list[str]] = {}

    def note(self, path: str, own: Sequence[str]) -> None:
        """Take note of who may have changed a path, or NOBODY."""
        known = self._on.setdefault(path, [])
        known[:] = [one for one in known if one not in own]
        known.extend(own)

    def since(self, path: str, own: Sequence[str]) -> set[str]:
        """Return whose edits, of those at work or outside, whoever changes a path may not know."""
        known = self._on.get(path, [])
        last = max((known.index(one) for one in own if one in known), default=-1)
        later = set(known[last + 1 :])
        if last < 0:
            later.discard(NOBODY)
        return {one for one in later if one == NOBODY or self._is_at_work(one)}


def authors(one: Attributed) -> tuple[str, ...]:
    """Return who may have made a change: agents by id, or NOBODY."""
    return tuple(dict.fromkeys(call.agent for call in one.calls)) or (NOBODY,)


def could_make(call: WritingCall, found: Found) -> bool:
    """Return whether a call may have made a change: by when it ran, and where it may write."""
    is_meanwhile = call.began <= found.until and (call.ended is None or call.ended >= found.since)
    return is_meanwhile and may_write(call, found.path)


def may_write(call: WritingCall, path: str) -> bool:
    """Return whether a call may write a path, by what it said and where it is let."""
    if call.paths and path not in call.paths:
        return False
    if call.region is not None and not is_below(path, call.region):
        return False
    return not is_below(path, call.barred)


def is_below(path: str, folders: Iterable[str]) -> bool:
    """Return whether a path is in one of some folders, of which "" is the whole."""
    return any(not top or path == top or path.startswith(f"{top}/") for top in folders)


def _attribute(found: Found, able: Sequence[WritingCall]) -> Attributed:
    """Name the author that edits explain, else all agents that may have made it.

    The likeliest call ran when the file was written last, or is nearest to that; then one that
    named the file.
    """
    if found.by:
        how = NAMED if len({call.agent for call in found.by}) == 1 else SHARED
        return Attributed(found=found, how=how, calls=found.by)
    if all(_had_ended(call, found) for call in able):
        return Attributed(found=found, how=OUTSIDE)
    if apart := tuple(call for call in able if call.is_apart):
        return Attributed(found=found, how=SOLE, calls=apart)
    newest_first = [*able][::-1]
    likely = tuple(sorted(newest_first, key=lambda call: (_apart(call, found), not call.paths)))
    owners = tuple(call for call in likely if is_below(found.path, call.leased))
    if len({call.agent for call in owners}) == 1:
        return Attributed(found=found, how=REGION, calls=owners)
    return Attributed(found=found, how=POSSIBLE, calls=likely)


def _had_ended(call: WritingCall, found: Found) -> bool:
    """Return whether a file was written, by the kernel's clock, when a call had ended."""
    return found.written_at is not None and call.span[1] < found.written_at


def _apart(call: WritingCall, found: Found) -> float:
    if found.written_at is None:
        return 0.0
    first, last = call.span
    return max(first - found.written_at, found.written_at - last, 0.0)


def _beside(
    own: Sequence[str], on: Iterable[str], are_one: Callable[[str, str], bool]
) -> tuple[str, ...]:
    return tuple(
        sorted(
            other
            for other in on
            if other not in own
            and not any(NOBODY not in (other, one) and are_one(one, other) for one in own)
        )
    )
