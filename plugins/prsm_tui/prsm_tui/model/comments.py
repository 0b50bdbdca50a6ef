"""A person's comments on lines of changes: to whom they go, and what those agents are told."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from prsm_tui.model.patches import REMOVED
from prsm_tui.model.review import Comment, numbers_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from prsm_tui.model.agents import Agent
    from prsm_tui.model.patches import PatchLine
    from prsm_tui.model.review import Change
    from prsm_tui.model.session import Session

_FENCES = re.compile("`+")


class Addressee(NamedTuple):
    """Who gets a comment, an agent that works, or None: it is a further task; `told`: in words."""

    agent: Agent | None
    told: str
    is_author: bool = False


class Letter(NamedTuple):
    """What one addressee is sent at once; `told`: to whom, in words."""

    agent: Agent | None
    told: str
    text: str
    comments: Sequence[Comment]


def addressee(session: Session, change: Change) -> Addressee | str:
    """Return who gets a comment on a change; where nobody can, why not.

    It is the agent that made the change, or, once that has ended, the nearest above it that works.
    """
    if change.agent is None:
        return "nobody of this session made it: it is from outside"
    author = at = session.agents.get(change.agent)
    while at is not None:
        if at.is_live:
            if at is author:
                return Addressee(at, f"to {at.name}, who made it", is_author=True)
            return Addressee(at, f"to {at.name}: {change.who} has ended")
        at = session.agents.get(at.parent or "")
    run = session.run
    if run is not None and run.is_open:
        return f"{change.who} has ended, and all above it: wait for the end of the run"
    return Addressee(None, f"as a further task: {change.who} has ended, and all above it")


def letters(
    session: Session, comments: Iterable[Comment]
) -> tuple[Sequence[Letter], Mapping[str, Sequence[Comment]]]:
    """Return what is sent to whom; and by the reason, comments that nobody can be sent."""
    parts: dict[str | None, list[tuple[Comment, Addressee, str]]] = {}
    left: dict[str, list[Comment]] = {}
    for comment in comments:
        change = session.review.find(comment.change)
        to = "its change is not there any more" if change is None else addressee(session, change)
        if change is None or isinstance(to, str):
            left.setdefault(str(to), []).append(comment)
            continue
        text = comment_text(change, comment.lines, comment.text, to_author=to.is_author)
        agent = None if to.agent is None else to.agent.id
        parts.setdefault(agent, []).append((comment, to, text))
    return [_letter(own) for own in parts.values()], left


def sending(session: Session, comments: Sequence[Comment]) -> str:
    """Return the question whether comments are to be sent: how many go to whom."""
    to_send, left = letters(session, comments)
    parts = [
        f"{len(one.comments)} " + ("as a task" if one.agent is None else f"to {one.agent.name}")
        for one in to_send
    ]
    parts += [f"{len(kept)} to nobody ({why})" for why, kept in left.items()]
    what = "the comment that is kept" if len(comments) == 1 else f"{len(comments)} comments"
    return f"Send {what}? {', '.join(parts)}."


def _letter(parts: Sequence[tuple[Comment, Addressee, str]]) -> Letter:
    """Return one text of all comments for one addressee."""
    [first, *others] = parts
    _, to, text = first
    if not others:
        return Letter(to.agent, to.told, text, [first[0]])
    whole = "\n\n".join([f"A review, of {len(parts)} comments.", *(text for _, _, text in parts)])
    told = "as a further task" if to.agent is None else f"to {to.agent.name}"
    return Letter(to.agent, told, whole, [comment for comment, _, _ in parts])


def comment_text(change: Change, lines: Sequence[PatchLine], said: str, *, to_author: bool) -> str:
    """Return what is said to an agent: file, lines if any, their text, and the comment.

    The text stands in a fence, in which `@` refers to no file.
    """
    whose = "your change" if to_author else f"the change of {change.who}"
    if not lines:
        return f"A comment on {whose} of `{change.path}`:\n{said}"
    runs = (len(run) + 1 for line in lines for run in _FENCES.findall(line.text))
    fence = "`" * max(3, *runs, 0)
    return "\n".join(
        [
            f"A comment on {whose} of `{change.path}`, {where(lines)}:",
            fence,
            *(f"{line.kind}{line.text}" for line in lines),
            fence,
            said,
        ]
    )


def where(lines: Sequence[PatchLine]) -> str:
    """Return which lines of a file these are: as it is now, or as it was where all are gone."""
    if any(line.kind != REMOVED for line in lines):
        return numbers_of(lines)
    return f"{numbers_of(lines)}, which {'was' if len(lines) == 1 else 'were'} removed"
