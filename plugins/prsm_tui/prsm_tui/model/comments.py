"""A person's comments on lines of changes, and to whom they go."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from prsm_core.door import Comment as Placed
from prsm_tui.model.patches import REMOVED, SAME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prsm_tui.model.agents import Agent
    from prsm_tui.model.review import Change, Comment
    from prsm_tui.model.session import Session


class Addressee(NamedTuple):
    """Who gets a comment, an agent that works, or None: it is a further task; `told`: in words."""

    agent: Agent | None
    told: str


def addressee(session: Session, change: Change) -> Addressee | str:
    """Return who gets a comment on a change; where nobody can, why not.

    It is the agent that made the change, or, once that has ended, the nearest above it that works.
    """
    if change.agent is None:
        return "nobody of this session made it: it is from outside"
    at = session.agents.get(change.agent)
    while at is not None:
        if at.is_live:
            return Addressee(at, told_to(at, change))
        at = session.agents.get(at.parent or "")
    run = session.run
    if run is not None and run.is_open:
        return f"{change.who} has ended, and all above it: wait for the end of the run"
    return Addressee(None, told_to(None, change))


def told_to(agent: Agent | None, change: Change | None = None) -> str:
    """Return in words whom a comment goes to, and, if it is on one `change`, why."""
    to = "as a further task" if agent is None else f"to {agent.name}"
    if change is None:
        return to
    if agent is None:
        return f"{to}: {change.who} has ended, and all above it"
    return f"{to}, who made it" if agent.id == change.agent else f"{to}: {change.who} has ended"


def sending(session: Session, comments: Sequence[Comment]) -> str:
    """Return the question whether comments are to be sent: how many go to whom."""
    counts = Counter(_where_to(session, comment) for comment in comments)
    parts = [f"{count} {where}" for where, count in counts.items()]
    what = "the comment that is kept" if len(comments) == 1 else f"{len(comments)} comments"
    return f"Send {what}? {', '.join(parts)}."


def _where_to(session: Session, comment: Comment) -> str:
    change = session.review.find(comment.change)
    to = "its change is not there any more" if change is None else addressee(session, change)
    if isinstance(to, str):
        return f"to nobody ({to})"
    return "as a task" if to.agent is None else f"to {to.agent.name}"


def placed(comment: Comment) -> Placed:
    """Return a comment with the numbers of its lines: before the change, after it, or both.

    Lines that stay are of the side that others are of; where none differ, of what is there now.
    """
    kinds = {line.kind for line in comment.lines}
    old = [line.old for line in comment.lines if line.old is not None]
    new = [line.new for line in comment.lines if line.new is not None]
    return Placed(
        change=comment.change,
        text=comment.text,
        old=(min(old), max(old)) if REMOVED in kinds else None,
        new=(min(new), max(new)) if new and kinds != {REMOVED, SAME} else None,
    )
