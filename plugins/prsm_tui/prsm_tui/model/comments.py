"""A person's comment on a line of a change: to whom it goes, and what that agent is told."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from prsm_tui.model.patches import REMOVED

if TYPE_CHECKING:
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


def comment_text(change: Change, line: PatchLine, said: str, *, to_author: bool) -> str:
    """Return what is said to an agent: file, line, its text, and the comment.

    The text stands in a fence, in which `@` refers to no file.
    """
    whose = "your change" if to_author else f"the change of {change.who}"
    number = line.old if line.kind == REMOVED else line.new
    where = f"line {number}" + (", which was removed" if line.kind == REMOVED else "")
    fence = "`" * max(3, *(len(run) + 1 for run in _FENCES.findall(line.text)), 0)
    return "\n".join(
        [
            f"A comment on {whose} of `{change.path}`, {where}:",
            fence,
            f"{line.kind}{line.text}",
            fence,
            said,
        ]
    )
