"""Why a file is as it is: the change that a person asks about, and what its agent said before."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from prsm_core import ConfigError
from prsm_core.door import Rationale, Reason
from prsm_core.engine.journal.views import TALK, conversation
from prsm_core.files import REJECTED, path_text, text_path
from prsm_files.session.deciding import told_author

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from prsm_core import Event, Store
    from prsm_core.files import ChangeRow
    from prsm_files.changes.tracing import Origin

_LOOK = "`prsm changes list --all` shows what was changed"

LOOKED_AT = 10  # entries before a call
LONGEST = 300  # characters of a reason
# What a text that gives a reason speaks of, and how much that says.
SCORES: Mapping[str, int] = {
    **dict.fromkeys(("fix", "bug"), 3),
    **dict.fromkeys(("improve", "prevent", "because", "so that", "avoid", "instead"), 2),
    **dict.fromkeys(("error", "fail", "broken", "wrong", "missing", "need", "should"), 1),
    **dict.fromkeys(("add", "remove", "rename", "refactor", "support", "ensure", "update"), 1),
}
_WORDS = {word: re.compile(rf"\b{word}", re.IGNORECASE) for word in SCORES}
_SAID = frozenset({"text", "thinking"})
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")


def of_path(rows: Sequence[ChangeRow], folder: str, path: str) -> Sequence[ChangeRow]:
    """Return the changes of a path that stand, newest first, else all. Raises ConfigError."""
    wanted = _place(os.path.join(folder, path))  # noqa: PTH118 - a name that need not be UTF-8
    found = [
        row
        for row in rows
        if f"{text_path(row.change.folder)}/{text_path(row.change.path)}" == wanted
    ]
    found = found or [row for row in rows if row.change.path in {path, path_text(path)}]
    if not found:
        raise ConfigError(
            f"no change of {path!r} was found in this session", hint=_LOOK, code="unchanged_path"
        )
    standing = [row for row in found if row.state != REJECTED]
    return (standing or found)[::-1]


def of_line(rows: Sequence[ChangeRow], origin: Origin, line: int) -> ChangeRow:
    """Return the change that a line is from; of none: raises ConfigError, `unchanged_line`."""
    path = rows[0].change.path
    if origin.change is None:
        what = (
            "is as it was before this session"
            if origin.is_older
            else "is of no change of this session: a person, or another program, has made it"
        )
        raise ConfigError(f"line {line} of {path} {what}", hint=_LOOK, code="unchanged_line")
    return next(row for row in rows if row.change.id == origin.change)


def _place(path: str) -> str:
    """Return a path without links above it, and without `..`; the last name may be a link."""
    parent, name = os.path.split(os.path.normpath(path))
    return os.path.join(os.path.realpath(parent), name)  # noqa: PTH118


class Reasons:
    """Reads why changes of a session were made; each agent's events once."""

    def __init__(self, store: Store, session: str) -> None:
        self._store = store
        self._session = session
        self._events: dict[str, list[Event]] = {}

    async def of(self, row: ChangeRow) -> Reason | None:
        """Return why a change was made, by what its agent said before the call."""
        author = row.change.author
        if author is None or not author.call:
            return None
        agent = author.agent
        if agent not in self._events:
            told = self._store.events(self._session, agent=agent)
            self._events[agent] = [event async for event in told if event.type in TALK]
        events = [event for event in self._events[agent] if event.ts <= row.at]
        return find_reason(conversation(events, numbered=True), author.call)


def told_reason(row: ChangeRow, names: Mapping[str, str], reason: Reason | None) -> Rationale:
    """Return why a file was changed, as `Changes.rationale` tells it."""
    change = row.change
    return Rationale(
        **told_author(row, names),
        change=change.id,
        path=change.path,
        how=change.how,
        state=row.state,
        at=row.at,
        reason=reason,
    )


def find_reason(entries: Iterable[Mapping[str, Any]], call: str) -> Reason | None:
    """Return why a call was made, by the text before it that scores most, then the newest."""
    all_ = list(entries)
    is_call = [one["kind"] == "tool_call" and one.get("call") == call for one in all_]
    # Vendors use an id again in a later turn: the last one counts.
    last = max((place for place, is_it in enumerate(is_call) if is_it), default=0)
    reasons = [
        Reason(sentence[:LONGEST], entry["kind"], points, entry.get("seq"))
        for entry in reversed(all_[max(0, last - LOOKED_AT) : last])
        if entry["kind"] in _SAID
        for sentence in _SENTENCE.split(entry["text"].strip())
        if (points := score(sentence))
    ]
    return max(reasons, key=lambda one: one.score, default=None)


def score(text: str) -> int:
    """Return how much a text speaks of reasons."""
    return sum(SCORES[word] for word, pattern in _WORDS.items() if pattern.search(text))
