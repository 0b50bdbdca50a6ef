"""What is at a path, how that changed between two looks, and whose calls were at work meanwhile.

Paths are text as `os.fsdecode` gives it, from the top of the folder. Moments are whole numbers that
their owner counts up with whatever begins or ends: an order, which no clock can set back.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from prsm_files.changes.splitting import Edit

LINK, PROGRAM, FILE = "120000", "100755", "100644"
FILE_BYTES = 100 * 2**20  # of one file whose content is kept


class Entry(Struct, frozen=True, gc=False):
    """A file or a link; None stands for neither.

    Attributes:
        mode: As git has it: "100644", "100755" or "120000".
        blob: The id of its content, or of where it leads; "" if that is not kept.
        why: Why it is not kept.
        mark: What tells one content that is not kept from another.
    """

    mode: str
    blob: str
    why: str = ""
    mark: str = ""


class Written(Struct, frozen=True, kw_only=True):
    """What PRSM itself has written at a path from the top of the folder, and what it replaced."""

    path: str
    before: Entry | None
    after: Entry | None


class Found(Struct, frozen=True, gc=False, kw_only=True):
    """One change of one path, that came to be after `since` and not after `until`.

    Attributes:
        path: The path.
        root: The repository that it is in, from the top of the folder; "" is the folder's own.
        before, after: What stood there, and what did then.
        since, until: Moments.
        added, removed: Lines; None: it is no text, or not kept.
        written_at: When what stands there now was written last, Unix seconds.
        by: Calls whose edits explain all of it, the newest first; none: no call does.
    """

    path: str
    root: str
    before: Entry | None
    after: Entry | None
    since: int
    until: int
    added: int | None = None
    removed: int | None = None
    written_at: float | None = None
    by: tuple[WritingCall, ...] = ()

    @property
    def kind(self) -> str:
        """What became of the path: added, deleted, or modified."""
        if self.before is None:
            return "added"
        return "modified" if self.after is not None else "deleted"


class WritingCall(Struct, frozen=True, gc=False, kw_only=True):
    """A call that may write, as far as it is known where.

    Attributes:
        agent: Whose it is.
        call: Its id.
        turn: The turn that it is of.
        paths: The files that it said it writes, and no others; empty: it may write any.
        region: The folders that it may write; None: all.
        barred: Folders that it may not write: others have them for themselves.
        leased: Folders that its agent has for itself, and those below it.
        is_apart: Whether it brings over what its agent did in a worktree of its own.
        edits: What it said it does to files; none: it said nothing.
        began: When it began.
        ended: When it ended; None: it runs.
        span: From when to when that was, Unix seconds by the kernel's clock of files.
    """

    agent: str
    call: str
    turn: str | None = None
    paths: frozenset[str] = frozenset()
    region: tuple[str, ...] | None = None
    barred: tuple[str, ...] = ()
    leased: tuple[str, ...] = ()
    is_apart: bool = False
    edits: tuple[Edit, ...] = ()
    began: int
    ended: int | None = None
    span: tuple[float, float] = (0.0, inf)


class Attributed(Struct, frozen=True, gc=False, kw_only=True):
    """Whose a change is.

    Attributes:
        found: The change.
        how: named, sole, region, shared, possible or outside.
        calls: Those that may have made it, the likeliest first; none where it came from outside.
        beside: Who else is on the file, which makes a conflict: agents, or "" for outside.
    """

    found: Found
    how: str
    calls: tuple[WritingCall, ...] = ()
    beside: tuple[str, ...] = ()
