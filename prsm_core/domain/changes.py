"""A change of a file, as the ledger has it: what, whose, and what was decided about it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from prsm_core.domain.record import Record

if TYPE_CHECKING:
    from collections.abc import Mapping

PENDING = "pending"
"""The state of a change about which nothing is decided."""
ACCEPTED = "accepted"
"""The state of a change that stays."""
REJECTED = "rejected"
"""The state of a change that was taken back."""
UNMERGED = "unmerged"
"""The state of a change that could not be taken back."""
COMMITTED = "committed"
"""The state of a change that is accepted, and in a commit of the person's repository."""
OPEN_STATES = frozenset({PENDING, UNMERGED})
"""The states of a change in which something can be decided."""

NAMED = "named"
"""The arguments of a call explain a change."""
SHARED = "shared"
"""The arguments of calls of several agents explain a change."""
SOLE = "sole"
"""A change comes from a worktree that its agent has for itself."""
REGION = "region"
"""A call ran that does not explain a change, in a folder leased to its agent."""
POSSIBLE = "possible"
"""Calls ran that do not explain a change."""
OUTSIDE = "outside"
"""No call ran that could have made a change."""
UNSURE = frozenset({POSSIBLE, REGION})
"""How a change came about that no call explains: a person may have made it."""

_ESCAPED = re.compile(r"\\(?:\\|x([0-9a-f]{2}))")


class Author(Record, frozen=True, gc=False):
    """A call that may have made a change, and its agent; the call is "" where none is known."""

    agent: str
    call: str = ""
    turn: str | None = None


class FileChange(Record, frozen=True, gc=False, kw_only=True):
    """One change of one path.

    Attributes:
        id: Tells it from others of the session.
        scan: The look that found it, with others.
        path: From the top of the folder; see `path_text`.
        root: The repository in the folder that it is of; "" for the folder itself.
        folder: Absolute, the top of the working tree.
        kind: added, modified or deleted.
        old_mode, new_mode: As git has them; None where there is no file.
        before, after: Ids of contents; None where there is no file, "" where it is not kept.
        added, removed: Lines; None where it is no text, or not kept.
        how: How it is known whose it is: `NAMED`, or another of these constants.
        authors: Who may have made it, the likeliest first; none where it came from outside.
        beside: Agents that are on the same file, "" for outside: it is a conflict.
        note: Why a content is not kept.
    """

    id: str
    scan: str
    path: str
    root: str = ""
    folder: str
    kind: str
    old_mode: str | None = None
    new_mode: str | None = None
    before: str | None = None
    after: str | None = None
    added: int | None = None
    removed: int | None = None
    how: str
    authors: tuple[Author, ...] = ()
    beside: tuple[str, ...] = ()
    note: str = ""

    @property
    def author(self) -> Author | None:
        """The likeliest author."""
        return self.authors[0] if self.authors else None

    @property
    def is_unsure(self) -> bool:
        """Whether a person may have made it, though agents may have: shown by a `?`."""
        return self.how in UNSURE


class ChangeRow(Record, frozen=True, gc=False, kw_only=True):
    """A change as the ledger has it now."""

    change: FileChange
    at: float  # Unix seconds, when it was found
    # pending | accepted | committed | rejected | unmerged: it could not be taken back
    state: str = PENDING
    why: str | None = None  # … because; of one that is committed the id of the commit
    decided_at: float | None = None


class Decision(Record, frozen=True, gc=False):
    """What was decided about a change; `why` it stays after all, or in which commit it is."""

    id: str
    path: str
    state: str  # accepted | committed | rejected | unmerged
    why: str | None = None


def path_text(path: str) -> str:
    r"""Return a path of `os.fsdecode` as text that can be stored: odd bytes as `\\xNN`."""
    escaped = path.replace("\\", "\\\\")
    return escaped.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def text_path(text: str) -> str:
    """Return the path that `path_text` made text of."""

    def back(found: re.Match[str]) -> str:
        odd = found[1]
        return "\\" if odd is None else bytes([int(odd, 16)]).decode("utf-8", "surrogateescape")

    return _ESCAPED.sub(back, text)


# Those that hold what they are called after.
CHANGE_COLUMNS = tuple(
    name for name in FileChange.__struct_fields__ if name not in {"authors", "beside"}
)


def change_columns(change: FileChange) -> dict[str, Any]:
    """Return a change as its table has it."""
    author = change.author
    return {
        **{name: getattr(change, name) for name in CHANGE_COLUMNS},
        "agent_id": None if author is None else author.agent,
        "call_id": None if author is None else author.call,
        "turn_id": None if author is None else author.turn,
        "authors": [[one.agent, one.call, one.turn] for one in change.authors],
        "beside": list(change.beside),
    }


def to_change_row(row: Mapping[str, Any]) -> ChangeRow:
    """Return a change from its columns, JSON decoded."""
    change = FileChange(
        **{name: row[name] for name in CHANGE_COLUMNS},
        authors=tuple(Author(*one) for one in row["authors"]),
        beside=tuple(row["beside"]),
    )
    return ChangeRow(
        change=change,
        at=row["found_at"],
        state=row["state"],
        why=row["why"],
        decided_at=row["decided_at"],
    )
