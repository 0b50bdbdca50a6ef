"""What a person says about lines of changes: whom it goes to, and in which words."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from prsm_core import ConfigError, PrsmError
from prsm_core.door import SentComments
from prsm_core.kit import escape_exact, escape_prose

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence

    from prsm_core.door import Change, Comment

    Say = Callable[[str | None, str, str], Awaitable[str]]

_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_FENCES = re.compile("`+")
_ADDED, _REMOVED, _SAME = "+", "-", " "


class Line(NamedTuple):
    """A line of a patch: its sign, its text, and its numbers before and after the change."""

    sign: str
    text: str
    old: int | None
    new: int | None


class Remark(NamedTuple):
    """A comment: its change, the lines that it is about, and what the person said."""

    change: Change
    lines: Sequence[Line]
    said: str


class Recipient(NamedTuple):
    """Who gets a comment: an agent, or None for a follow-up task; `why`: nobody does."""

    agent: str | None
    why: str | None = None


class Team(Struct, frozen=True):
    """The agents of a session, each with the one above it; those that work, and whether a run is.

    An agent of an earlier process works no more.
    """

    parents: Mapping[str, str | None]
    at_work: Collection[str]
    is_running: bool

    def recipient(self, change: Change) -> Recipient:
        """Return who gets a comment on a change: its author, or the nearest above it that works.

        Where none does it is a follow-up task, unless a run is open still.
        """
        at = change.agent
        if at is None:
            return Recipient(None, "nobody of this session made it: it is from outside")
        while at is not None:
            if at in self.at_work:
                return Recipient(at)
            at = self.parents.get(at)
        if self.is_running:
            who = f"{_authors(change)} has ended, and all above it"
            return Recipient(None, f"{who}: wait for the end of the run")
        return Recipient(None)


def check_comments(comments: Sequence[Comment]) -> None:
    """Raise ConfigError for a comment that says nothing."""
    if not all(one.text.strip() for one in comments):
        raise ConfigError("what is said is blank", hint="say something", code="blank")


def chosen_lines(diff: str, comment: Comment) -> Sequence[Line]:
    """Return the lines of a patch that a comment is about. Raises ConfigError if none is there."""
    if comment.old is None and comment.new is None:
        return ()
    lines = [
        line
        for line in _read(diff)
        if (line.sign != _ADDED and _is_in(comment.old, line.old))
        or (line.sign != _REMOVED and _is_in(comment.new, line.new))
    ]
    if not lines:
        raise ConfigError(
            f"change {comment.change} shows no such line",
            hint="take the numbers of its `diff`, or none to speak about all of it",
            code="no_such_line",
        )
    return lines


def _is_in(lines: tuple[int, int] | None, number: int | None) -> bool:
    return lines is not None and number is not None and lines[0] <= number <= lines[1]


def _read(diff: str) -> Iterator[Line]:
    """Yield the lines of the file that a patch of one file has."""
    old = new = 0  # 0: no hunk has begun
    for raw in diff.split("\n"):
        if match := _HUNK.match(raw):
            old, new = int(match[1]), int(match[2])
        elif old or new:
            sign, text = raw[:1], escape_prose(raw)[1:]
            if sign == _SAME:
                yield Line(sign, text, old, new)
            elif sign == _REMOVED:
                yield Line(sign, text, old, None)
            elif sign == _ADDED:
                yield Line(sign, text, None, new)
            old, new = old + (sign in {_SAME, _REMOVED}), new + (sign in {_SAME, _ADDED})


async def send(
    remarks: Sequence[Remark], team: Team, say: Say, delivery: str
) -> Sequence[SentComments]:
    """Say all remarks for one recipient at once; return what became of them.

    `say` is given an agent, or None, the text and the delivery, and returns how it was delivered.
    """
    groups: dict[Recipient, list[int]] = {}
    for place, remark in enumerate(remarks):
        groups.setdefault(team.recipient(remark.change), []).append(place)
    sent = []
    for to, places in groups.items():
        text, how, why = "", None, to.why
        if why is None:
            text = _letter(to.agent, [remarks[place] for place in places])
            try:
                how = await say(to.agent, text, delivery)
            except PrsmError as error:
                why = f"{error.message}; {error.hint}" if error.hint else error.message
        told = SentComments(comments=tuple(places), agent=to.agent, text=text, how=how, why=why)
        sent.append(told)
    return sent


def _letter(agent: str | None, remarks: Sequence[Remark]) -> str:
    texts = [comment_text(one, to_author=one.change.agent == agent) for one in remarks]
    head = [f"A review, of {len(texts)} comments."] if len(texts) > 1 else []
    return "\n\n".join([*head, *texts])


def comment_text(remark: Remark, *, to_author: bool) -> str:
    """Return what is said to an agent: file, lines if any, their text, and the comment.

    The text stands in a fence, in which `@` refers to no file.
    """
    change, lines, said = remark
    whose = "your change" if to_author else f"the change of {_authors(change)}"
    what = f"A comment on {whose} of `{escape_exact(change.path)}`"
    if not lines:
        return f"{what}:\n{said}"
    runs = (len(run) + 1 for line in lines for run in _FENCES.findall(line.text))
    fence = "`" * max(3, *runs, 0)
    quoted = (f"{line.sign}{line.text}" for line in lines)
    return "\n".join([f"{what}, {_where(lines)}:", fence, *quoted, fence, said])


def _where(lines: Sequence[Line]) -> str:
    """Return which lines of a file these are: as it is now, or as it was where all are gone."""
    stay = [line.new for line in lines if line.new is not None]
    numbers = stay or [line.old for line in lines if line.old is not None]
    first, last = min(numbers), max(numbers)
    where = f"line {first}" if first == last else f"lines {first} to {last}"
    if stay:
        return where
    return f"{where}, which {'was' if len(lines) == 1 else 'were'} removed"


def _authors(change: Change) -> str:
    names = (escape_exact(one.name or (one.agent or "")[:8]) for one in change.authors)
    return ", ".join(dict.fromkeys(names))
