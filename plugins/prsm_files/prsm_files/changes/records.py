"""Values: what calls say they do to files, a change of a path, and whose it may be.

Paths are text as `os.fsdecode` gives it, from the top of the folder. Moments are whole numbers that
their owner counts up with whatever begins or ends: an order, which no clock can set back.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from prsm_files.shadow.records import Entry


class Replacement(Struct, frozen=True, gc=False):
    """A text that takes the place of another one.

    Of whole lines the first match behind the replacement before it counts; none at all are the end
    of the file.
    """

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
