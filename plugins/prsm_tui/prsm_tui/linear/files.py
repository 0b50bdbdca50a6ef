"""Changes and snapshots of files by numbers: rows, decisions, comments, restores."""

from __future__ import annotations

import re
import time
from functools import partial
from typing import TYPE_CHECKING, Protocol

from prsm_tui.linear.commands import number_of, numbered
from prsm_tui.linear.phrases import count
from prsm_tui.model.comments import addressee, sending
from prsm_tui.model.patches import ADDED, HUNK, REMOVED, SAME
from prsm_tui.model.review import Comment, counted, without_unsure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from prsm_tui.acts import Acts
    from prsm_tui.model.patches import PatchLine
    from prsm_tui.model.review import Change, Detail
    from prsm_tui.model.session import Session
    from prsm_tui.model.shelf import Plan, Snapshot

_DOES: Mapping[str, str] = {
    "+": "comes back",
    "-": "goes",
    "~": "changes",
    "%": "changes permissions",
}
_MOST = 100  # rows that are told at once
_COMMENT = re.compile(r"(\d{1,6})\s+(\d{1,6})(?:\s*-\s*(\d{1,6}))?\s+(\S.*)", re.DOTALL)
_HOW = "a change, its rows and a text, such as: 2 3-5 why?"
_LINE_DOES: Mapping[str, str] = {ADDED: "comes", REMOVED: "goes", SAME: "stays"}


class Desk(Protocol):
    """Where a person is."""

    session: Session
    acts: Acts
    delivery: str

    def say(self, lines: Iterable[str]) -> None:
        """Write lines."""

    def told(self, level: str, text: str) -> None:
        """Say what became of an act."""

    def ask(self, what: str, do: Callable[[], None]) -> None:
        """Do something once the person has said yes."""


class Shelving:
    """Knows the numbers of snapshots, and what is told once it was read."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._numbers: list[str] = []  # ids of snapshots: the first is snapshot 1
        self._listing: int | None = None  # how often they had been read when they were asked for
        self._planned: str | None = None  # the snapshot whose restore was asked for

    @property
    def commands(self) -> Mapping[str, Callable[[str], None]]:
        """What can be typed, by its name."""
        return {
            "snapshots": lambda _: self._ask_all(),
            "snapshot": self._take,
            "restore": self._ask_plan,
            "undo": lambda _: self._desk.ask(
                "take back what was done to files last", self._desk.acts.files.undo_act
            ),
        }

    def news(self) -> Iterator[str]:
        """Yield what was asked for and has been read; ask about a restore that was planned."""
        shelf = self._desk.session.shelf
        if self._listing is not None and shelf.reads != self._listing:
            self._listing = None
            yield from self._list()
        if self._planned is not None and self._planned in shelf.plans:
            snapshot, self._planned = self._planned, None
            plan = shelf.plans[snapshot]
            yield from self._plan(snapshot, plan)
            if plan.lines:
                restore = partial(self._desk.acts.files.restore, snapshot)
                self._desk.ask(f"restore {self._label(snapshot)}", restore)

    def _ask_all(self) -> None:
        self._listing = self._desk.session.shelf.reads
        self._desk.acts.files.load_snapshots()

    def _list(self) -> Iterator[str]:
        shelf = self._desk.session.shelf
        if shelf.error:
            yield f"snapshots: {shelf.error}"
            return
        told = "none" if not shelf.snapshots else f"{len(shelf.snapshots)}, the newest first"
        yield f"snapshots: {told}; /restore NUMBER tells what one would change, and asks"
        yield from (f"{self._label(one.id)}: {_told(one)}" for one in shelf.snapshots)

    def _take(self, description: str) -> None:
        if not description:
            self._ask_all()
        else:
            self._desk.acts.files.take_snapshot(description)

    def _ask_plan(self, number: str) -> None:
        found = numbered(number, self._numbers)
        if not found or len(found) > 1:
            self._desk.told("warning", "which snapshot? /snapshots tells their numbers")
            return
        self._planned = found[0]
        self._desk.session.shelf.plans.pop(found[0], None)  # files may be others by now
        self._desk.acts.files.plan(found[0])

    def _plan(self, snapshot: str, plan: Plan) -> Iterator[str]:
        label = self._label(snapshot)
        yield f"{label}: {plan.error or plan.summary}"
        for line in plan.lines:
            sign, _, path = line.partition(" ")
            yield f"{label}: {f'{path} {_DOES[sign]}' if sign in _DOES else line}"

    def _label(self, snapshot: str) -> str:
        return f"snapshot {number_of(snapshot, self._numbers)}"


def _told(one: Snapshot) -> str:
    when = time.strftime("%H:%M:%S", time.localtime(one.taken_at))
    unquiet = f"; an agent wrote meanwhile: {', '.join(one.unquiet)}" if one.unquiet else ""
    about = f", {one.description}" if one.description else ""
    return f"{one.kind}, at {when}{about}{unquiet}"


class Reviewing:
    """Knows the numbers of changes, and what is told once it was read."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._numbers: list[str] = []  # ids of changes: the first is change 1
        self._listing: tuple[int, bool] | None = None  # reads before, and whether all are told
        self._sending: int | None = None  # reads before
        self._lines: list[tuple[str, int]] = []  # of which changes, from which rows on

    @property
    def commands(self) -> Mapping[str, Callable[[str], None]]:
        """What can be typed, by its name."""
        return {
            "changes": self._changes,
            "lines": self._tell_lines,
            "accept": self._accept,
            "reject": self._reject,
            "comment": lambda rest: self._comment(rest, sends=True),
            "keep": lambda rest: self._comment(rest, sends=False),
            "review": lambda _: self._send(),
        }

    def news(self) -> Iterator[str]:
        """Yield what was asked for and has been read."""
        review = self._desk.session.review
        if self._listing is not None and review.reads != self._listing[0]:
            (_, shows_all), self._listing = self._listing, None
            yield from self._list(shows_all=shows_all)
        if self._sending is not None and review.reads != self._sending:
            self._sending = None
            self._ask_to_send()
        while self._lines and self._lines[0][0] in review.details:
            change, first = self._lines.pop(0)
            known = review.find(change)
            if known is not None:
                yield from self._rows(known, review.details[change], first)

    def _changes(self, rest: str) -> None:
        self._listing = self._desk.session.review.reads, rest == "all"
        self._desk.acts.files.load()

    def _list(self, *, shows_all: bool) -> Iterator[str]:
        review = self._desk.session.review
        groups = review.groups("file", shows_all=shows_all)
        changes = [one for group in groups for one in group.changes]
        if review.error:
            yield f"changes: {review.error}"
            return
        what = "in all" if shows_all else "that nothing is decided about"
        yield f"changes: {len(changes)} {what}; /lines NUMBER tells one"
        for change in changes:
            yield f"{self._label(change)}: {_change_line(change)}"
        if review.kept:
            yield f"changes: comments that are not sent: {len(review.kept)}; /review sends them"

    def _tell_lines(self, rest: str) -> None:
        number, _, row = rest.partition(" ")
        change = self._change(number)
        first = int(row) if row.isascii() and row.isdigit() and len(row) < 7 else 1
        if change is None:
            self._desk.told("warning", "which change? /changes tells their numbers")
            return
        self._lines.append((change.id, max(1, first)))
        if change.id in self._desk.session.review.details:
            self._desk.say(self.news())
        else:
            self._desk.acts.files.open(change.id)

    def _rows(self, change: Change, detail: Detail, first: int) -> Iterator[str]:
        label = self._label(change)
        yield f"{label}: {_change_line(change)}"
        if detail.error or not detail.lines:
            yield f"{label}: {detail.error or change.note or 'it has no lines to tell'}"
            return
        if detail.reason and first == 1:
            why = " ".join(detail.reason.split())
            yield f"{label}: why, as {change.who} {detail.said} before: {why}"
        rows = list(enumerate(detail.lines, start=1))[first - 1 : first - 1 + _MOST]
        for number, line in rows:
            yield f"{label}, row {number}: {_row(line)}"
        left = len(detail.lines) - (first - 1 + len(rows))
        if left > 0:
            more = f"/lines {label.split()[1]} {first + len(rows)}"
            yield f"{label}: {left} more rows; {more} tells them"
        else:
            yield f"{label}: end of its rows"

    def _accept(self, rest: str) -> None:
        changes = self._open(rest)
        accept = partial(self._desk.acts.files.accept, [one.id for one in changes])
        if len(changes) == 1:
            accept()
        elif changes:
            self._desk.ask(f"accept {counted(changes)}", accept)

    def _reject(self, rest: str) -> None:
        changes = self._open(rest)
        if not changes:
            return
        changes, left = without_unsure(changes) if rest == "all" else (changes, "")
        if not changes:
            self._desk.told("warning", f"{left}; give their numbers")
            return
        reject = partial(self._desk.acts.files.reject, [one.id for one in changes])
        what = f"take back {counted(changes)}" + (f" ({left})" if left else "")
        self._desk.ask(what, reject)

    def _open(self, rest: str) -> Sequence[Change]:
        """Return the changes that are meant and can be decided; else say why there are none."""
        review = self._desk.session.review
        if rest == "all":
            found = [one for one in review.changes if one.is_open and one.agent is not None]
        else:
            ids = numbered(rest, self._numbers)
            if ids is None:
                self._desk.told("warning", "which changes? Their numbers, or all; /changes")
                return ()
            known = filter(None, map(review.find, ids))
            found = [one for one in known if one.is_open]
        if not found:
            self._desk.told("warning", "there is nothing to decide")
        return found

    def _comment(self, rest: str, *, sends: bool) -> None:
        found = _COMMENT.fullmatch(rest)
        change = None if found is None else self._change(found[1])
        if found is None or change is None:
            self._desk.told("warning", f"a comment needs {_HOW}")
            return
        detail = self._desk.session.review.details.get(change.id)
        if detail is None:
            self._desk.told("warning", f"/lines {found[1]} tells its rows first")
            return
        rows = detail.lines[int(found[2]) - 1 : int(found[3] or found[2])] if int(found[2]) else ()
        lines = tuple(line for line in rows if line.is_content)
        to = addressee(self._desk.session, change)
        if not lines or isinstance(to, str):
            why = "these rows are no lines of the file" if not lines else str(to)
            self._desk.told("warning", f"not sent: {why}")
            return
        comment = Comment(change.id, lines, found[4].strip())
        self._desk.session.review.keep(comment)
        if sends:
            self._desk.acts.files.comment([comment], self._desk.delivery)
        else:
            self._desk.told("info", f"kept, not sent: {comment.short}; /review sends what is kept")

    def _send(self) -> None:
        """Have the changes read again: whose they are is to be known before comments are sent."""
        review = self._desk.session.review
        if not review.kept:
            self._desk.told("info", "no comment is kept; /keep keeps one")
            return
        self._sending = review.reads
        self._desk.acts.files.load()

    def _ask_to_send(self) -> None:
        kept = list(self._desk.session.review.kept.values())
        if not kept:
            return
        self._desk.say(f"review: {comment.short}" for comment in kept)
        send = partial(self._desk.acts.files.comment, kept, self._desk.delivery)
        question = sending(self._desk.session, kept).rstrip(".").replace("? ", ": ")
        question = question[:1].lower() + question[1:]
        self._desk.ask(question, send)

    def _change(self, number: str) -> Change | None:
        found = numbered(number, self._numbers)
        return self._desk.session.review.find(found[0]) if found and len(found) == 1 else None

    def _label(self, change: Change) -> str:
        return f"change {number_of(change.id, self._numbers)}"


def _change_line(change: Change) -> str:
    removed = change.removed or 0
    size = "" if change.added is None else f", {count(change.added)} more, {count(removed)} less"
    beside = f"; conflict: {', '.join(change.beside)} changed it, too" if change.beside else ""
    why = f" since {change.why}" if change.why else ""
    return f"{change.path}, {change.kind} by {change.whose}{size}, {change.state}{why}{beside}"


def _row(line: PatchLine) -> str:
    if line.is_content:
        number = line.old if line.kind == REMOVED else line.new
        return f"line {number} {_LINE_DOES[line.kind]}: {line.text or '(blank)'}"
    return f"a part begins: {line.text}" if line.kind == HUNK else f"note: {line.text}"
