"""The changes of a session as they are reviewed: by file, agent or turn, conflicts first.

Comments that a person has not sent yet are kept here, so that they outlive the screen.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from prsm_core.kit import escape_exact, first_line
from prsm_tui.model.patches import REMOVED, read_patch
from prsm_tui.model.spoken import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from prsm_core.door import AgentName, ChangeDetail
    from prsm_core.door import Change as ChangeRecord
    from prsm_tui.model.patches import PatchLine

WAYS = ("file", "agent", "turn")
OPEN = frozenset({"pending", "unmerged"})  # states in which something can be decided
OUTSIDE = "(outside)"  # a person, or another program
UNSURE = frozenset({"possible", "region"})  # no call explains it: a person may have made it
_SHORT = 60  # characters of a comment that stand for it
_MARKS = {"added": "+", "deleted": "-", "modified": "~"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of a file, all of it text that can be drawn; `agent` None: it is from outside."""

    id: str
    path: str
    told_path: str  # as it was told, which is what it is asked for by
    kind: str
    added: int | None
    removed: int | None
    how: str
    agent: str | None
    names: Sequence[str]  # of all who may have made it
    call: str | None
    turn: str | None
    beside: Sequence[str]  # who else is on the file
    note: str
    state: str
    why: str
    at: float

    @property
    def is_open(self) -> bool:
        """Whether something can be decided about it."""
        return self.state in OPEN

    @property
    def is_conflict(self) -> bool:
        """Whether others are on the same file, or later edits keep it from being taken back."""
        return bool(self.beside) or self.state == "unmerged"

    @property
    def mark(self) -> str:
        """A sign of its kind."""
        return _MARKS.get(self.kind, "?")

    @property
    def is_unsure(self) -> bool:
        """Whether a person may have made it, though agents may have."""
        return self.how in UNSURE

    @property
    def who(self) -> str:
        """Who may have made it."""
        return ", ".join(self.names) or OUTSIDE

    @property
    def whose(self) -> str:
        """Who made it; with a `?` where a person may have."""
        mark = "?" if self.is_unsure else ""
        return ", ".join(f"{name}{mark}" for name in self.names) or OUTSIDE


@dataclass(frozen=True, slots=True)
class Group:
    """Changes that belong together; `key` tells the group from others of the same way."""

    key: tuple[str, ...]
    changes: Sequence[Change]


@dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    """What one change did to lines, and why; or `error`, why that is not known."""

    lines: Sequence[PatchLine] = ()
    reason: str = ""
    said: str = ""  # said or thought
    error: str = ""


@dataclass(frozen=True, slots=True)
class Comment:
    """What is said about some lines of a change, or, where there are none, about all of it."""

    change: str
    lines: tuple[PatchLine, ...]
    text: str

    @property
    def place(self) -> tuple[object, ...]:
        """What tells it from others: one place has one comment."""
        return self.change, *self.lines[:1], *self.lines[-1:]

    @property
    def short(self) -> str:
        """Where it is, and how it begins."""
        return f"{subject_of(self.lines)}: {first_line(self.text, _SHORT)}"


@dataclass(slots=True)
class Reads:
    """Counts how often something was read, or could not be, and keeps why it could not."""

    version: int = 0  # another one whenever something is
    error: str = ""
    is_known: bool = False  # it was told once
    reads: int = 0

    def end_read(self, error: str = "") -> None:
        """Note that it was read, or why it could not be."""
        self.error, self.is_known = error, True
        self.version, self.reads = self.version + 1, self.reads + 1


@dataclass(slots=True)
class Review(Reads):
    """Owns the changes as they were told last, and the details of those that were opened."""

    changes: Sequence[Change] = ()
    details: dict[str, Detail] = field(default_factory=dict)
    kept: dict[object, Comment] = field(default_factory=dict)  # by their places, and not sent

    def take(self, rows: Iterable[ChangeRecord]) -> None:
        """Take over all changes, as Changes.list tells them."""
        self.changes = [change_of(row) for row in rows]
        self.end_read()

    def take_detail(self, told: ChangeDetail) -> None:
        """Take over one change, as Changes.show tells it."""
        reason = told.rationale
        self.details[told.change] = Detail(
            lines=read_patch(told.diff),
            reason="" if reason is None else shown(reason.text).strip(),
            said="thought" if reason is not None and reason.kind == "thinking" else "said",
        )
        self.version += 1

    def fail_detail(self, change: str, why: str) -> None:
        """Note why one change cannot be shown."""
        self.details[change] = Detail(error=why)
        self.version += 1

    def keep(self, comment: Comment) -> None:
        """Keep a comment in the place of the one that is kept there; a blank one drops that."""
        self.kept.pop(comment.place, None)
        if comment.text.strip():
            self.kept[comment.place] = comment
        self.version += 1

    def let_go(self, comments: Iterable[Comment]) -> None:
        """Keep comments no more."""
        for comment in comments:
            self.kept.pop(comment.place, None)
        self.version += 1

    def kept_at(self, change: str, lines: Sequence[PatchLine]) -> Comment | None:
        """Return the comment that typing is to go on with, the newest of several.

        On one line it is any that has the line among its own; on none, or several, the one there.
        """
        if len(lines) == 1:
            kept = reversed(self.kept.values())
            return next((c for c in kept if c.change == change and lines[0] in c.lines), None)
        return self.kept.get((change, *lines[:1], *lines[-1:]))

    def find(self, change: str | None) -> Change | None:
        """Return the change of an id."""
        return next((one for one in self.changes if one.id == change), None)

    def groups(self, way: str, *, shows_all: bool = False) -> Sequence[Group]:
        """Return those that are open, or all, in groups; what is in conflict comes first."""
        found: dict[tuple[str, ...], list[Change]] = {}
        for change in self.changes:
            if shows_all or change.is_open:
                found.setdefault(_key(change, way), []).append(change)
        groups = [
            Group(key, sorted(changes, key=lambda one: not one.is_conflict))
            for key, changes in found.items()
        ]
        return sorted(groups, key=lambda group: not group.changes[0].is_conflict)


def _key(change: Change, way: str) -> tuple[str, ...]:
    if way == "file":
        return (change.path,)
    if way == "agent":
        return (change.agent or "", change.who)
    return (change.agent or "", change.turn or "", change.who)


def change_of(row: ChangeRecord) -> Change:
    """Return a change as it is drawn."""
    return Change(
        id=row.change,
        path=escape_exact(row.path),
        told_path=row.path,
        kind=escape_exact(row.kind),
        added=row.added,
        removed=row.removed,
        how=escape_exact(row.how),
        agent=row.agent,
        names=tuple(dict.fromkeys(map(_name, row.authors))),
        call=row.call,
        turn=row.turn,
        beside=tuple(map(_name, row.beside)),
        note=shown(row.note),
        state=escape_exact(row.state),
        why=shown(row.why),
        at=row.at,
    )


def _name(told: AgentName) -> str:
    if told.agent is None:
        return "somebody outside"
    return escape_exact(told.name or told.agent[:8])


def without_unsure(changes: Sequence[Change]) -> tuple[Sequence[Change], str]:
    """Return those changes that no person may have made, and in words how many stay."""
    sure = [one for one in changes if not one.is_unsure]
    left = len(changes) - len(sure)
    return sure, f"stay, for you may have made them (?): {left}" if left else ""


def size_of(changes: Iterable[Change]) -> str:
    """Return how many lines came and went: `+3 -1`; blank where nobody counted any."""
    counted = [one for one in changes if one.added is not None]
    if not counted:
        return ""
    removed = sum(one.removed or 0 for one in counted)
    return f"+{sum(one.added or 0 for one in counted)} -{removed}"


def counted(changes: Sequence[Change]) -> str:
    """Return which changes these are, in words."""
    if len(changes) == 1:
        return f"the change of {changes[0].path} by {changes[0].whose}"
    files = len({one.path for one in changes})
    return f"{len(changes)} changes of {files} file{'' if files == 1 else 's'}"


def subject_of(lines: Sequence[PatchLine]) -> str:
    """Return what a comment is on: its lines by number, or all of the change."""
    return numbers_of(lines) if lines else "all of the change"


def numbers_of(lines: Sequence[PatchLine]) -> str:
    """Return the numbers of lines, from the first to the last."""
    stays = [line.new for line in lines if line.kind != REMOVED and line.new is not None]
    numbers = stays or [line.old for line in lines if line.old is not None]
    first, last = min(numbers), max(numbers)
    return f"line {first}" if first == last else f"lines {first} to {last}"
