"""The sessions as they are listed: in three groups, of which what needs a person comes first.

It takes the rows of `Hub.sessions`, and what masters did last; it knows no screen and no clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec import to_builtins

from prsm_core.door import CallEntry, TextEntry, UserEntry
from prsm_core.kit import escape_exact, escape_prose, first_line
from prsm_tui.model.requests import request_of
from prsm_tui.model.session import MOST_CALLED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prsm_core.door import HistoryEntry, HubSession

NEEDS_YOU, WORKS, DONE = GROUPS = "needs you", "works", "done"
SIGNS = {
    NEEDS_YOU: "?",
    "running": ">",
    "completed": "x",
    "failed": "!",
    "killed": "-",
    "interrupted": "/",
}
_PEEKED = 8  # lines of one text


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A session; `waits` are the heads of what waits for a person, `started_at` Unix seconds."""

    id: str
    name: str
    task: str
    status: str
    workspace: str
    origin: str | None
    waits: Sequence[str]
    started_at: float
    last_seq: int
    is_owned: bool

    @property
    def group(self) -> str:
        """In which group it stands."""
        if self.waits:
            return NEEDS_YOU
        return WORKS if self.status == "running" else DONE

    @property
    def sign(self) -> str:
        """A sign for what it does; the word stands beside it."""
        return SIGNS.get(NEEDS_YOU if self.waits else self.status, ".")

    @property
    def word(self) -> str:
        """What it does, in words."""
        if self.waits:
            return f"{NEEDS_YOU}: {len(self.waits)}"
        words = {"running": WORKS, "completed": DONE, "": "not begun"}
        return words.get(self.status, self.status)


Line = Listed | str  # a session, or what stands above a group


class Sessions:
    """Owns the list; the session that is chosen stays chosen, whatever comes and goes."""

    def __init__(self) -> None:
        self.listed: Sequence[Listed] = ()
        self.chosen: str | None = None
        self.filter = ""
        self.is_known = False  # whether anything has been read yet
        self._peeked: dict[str, tuple[int, Sequence[str]]] = {}

    def take(self, rows: Sequence[HubSession]) -> None:
        """Take the sessions as they are now, newest first."""
        found = list(map(listed_of, rows))
        self.listed = [one for group in GROUPS for one in found if one.group == group]
        self.is_known = True
        known = {one.id for one in found}
        self._peeked = {id_: told for id_, told in self._peeked.items() if id_ in known}
        if self.chosen not in known:
            self.chosen = self.listed[0].id if self.listed else None

    def take_peek(self, session: str, seq: int, entries: Sequence[HistoryEntry]) -> None:
        """Take what a session's master did last, as it was at an event."""
        self._peeked[session] = seq, [line for entry in entries for line in _lines_of(entry)]

    def find(self, session: str | None) -> Listed | None:
        """Return a session of the list."""
        return next((one for one in self.listed if one.id == session), None)

    def waiting(self, besides: str | None = None) -> int:
        """Return how much waits for a person in all sessions but one."""
        return sum(len(one.waits) for one in self.listed if one.id != besides)

    def elsewhere(self, here: str) -> str:
        """Return how many sessions need a person, and how many work, but for one; blank: none."""
        groups = [one.group for one in self.listed if one.id != here]
        waits, works = groups.count(NEEDS_YOU), groups.count(WORKS)
        needs = f"{waits} need{'s' if waits == 1 else ''} you" if waits else ""
        work = f"{works} work{'s' if works == 1 else ''}" if works else ""
        return ", ".join(filter(None, (needs, work)))

    def lines(self) -> Sequence[Line]:
        """Return what is shown: the groups that have any, each with its sessions."""
        shown = [one for one in self.listed if self._fits(one)]
        lines: list[Line] = []
        for group in GROUPS:
            own = [one for one in shown if one.group == group]
            if own:
                lines += [f"{group.upper()} ({len(own)})", *own]
        return lines

    def peek(self) -> Sequence[str]:
        """Return what the chosen session waits for, and what its master did last."""
        chosen = self.find(self.chosen)
        if chosen is None:
            return ()
        waits = [f"waits for you: {head}" for head in chosen.waits]
        return [*waits, *self._peeked.get(chosen.id, (0, ()))[1]]

    def wants_peek(self) -> Listed | None:
        """Return the chosen session, if it has gone on since it was looked at."""
        chosen = self.find(self.chosen)
        if chosen is None:
            return None
        return chosen if self._peeked.get(chosen.id, (-1, ()))[0] != chosen.last_seq else None

    @property
    def _shown(self) -> Sequence[str]:
        return [line.id for line in self.lines() if isinstance(line, Listed)]

    def move(self, step: int) -> None:
        """Choose another session of those that are shown."""
        ids = self._shown
        if ids:
            place = ids.index(self.chosen) + step if self.chosen in ids else 0
            self.chosen = ids[min(len(ids) - 1, max(0, place))]

    def edge(self, place: int) -> None:
        """Choose the first of those that are shown, or the last."""
        if ids := self._shown:
            self.chosen = ids[place]

    def set_filter(self, text: str) -> None:
        """Show only sessions that have these words somewhere."""
        self.filter = text
        ids = self._shown
        if ids and self.chosen not in ids:
            self.chosen = ids[0]

    def _fits(self, one: Listed) -> bool:
        words = self.filter.lower().split()
        about = " ".join((one.name, one.task, one.word, one.workspace, one.id)).lower()
        return all(word in about for word in words)


def listed_of(row: HubSession) -> Listed:
    """Return a session by its row of `Hub.sessions`."""
    called = row.name or first_line(row.task, MOST_CALLED) or "no task yet"
    waits = [
        f"{escape_exact(told.name)}: "
        + request_of(told.kind, told.agent, told.opened_at, to_builtins(told)).head
        for told in row.waits
    ]
    return Listed(
        id=row.session,
        name=escape_exact(called),
        task=escape_prose(row.task),
        status=escape_exact(row.status or ""),
        workspace=escape_exact(row.workspace),
        origin=row.origin,
        waits=tuple(waits),
        started_at=row.started_at,
        last_seq=row.last_seq,
        is_owned=row.pid is not None,
    )


def _lines_of(entry: HistoryEntry) -> Sequence[str]:
    if isinstance(entry, CallEntry):
        return [f"[{escape_exact(entry.tool)}]"]
    text = escape_prose(entry.text)
    if not isinstance(entry, TextEntry | UserEntry) or not text.strip():
        return ()
    lead = "> " if isinstance(entry, UserEntry) else ""
    lines = [line for line in text.splitlines() if line.strip()]
    more = ["…"] if len(lines) > _PEEKED else []
    return [f"{lead}{line}" for line in (*lines[:_PEEKED], *more)]
