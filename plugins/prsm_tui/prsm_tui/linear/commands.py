"""What may be typed in the linear mode: commands behind a slash, numbers, a yes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prsm_tui.commands import COMMANDS, Command

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_OWN: Mapping[str, Command] = {
    "help": Command("/help", "these commands"),
    "agents": Command("/agents", "all agents, each with its number, its state and what it used"),
    "open": Command("/open AGENT", "select an agent, by number or name; `session`: what is none's"),
    "needs": Command("/needs [NUMBER]", "go to what waits for you, the oldest first; answer there"),
    "back": Command("/back", "leave what waits open, and go on typing to the agent"),
    "show": Command("/show NUMBER", "all of a tool call, or of a thought"),
    "history": Command("/history", "what the selected agent said before"),
    "deliver": Command("/deliver HOW", "how prompts are delivered: inject, queue or interrupt"),
}
PAGES = ("budget", "models", "providers", "policy", "settings")  # which are told as lines
_FILES: Mapping[str, Command] = {
    "changes": Command("/changes [all]", "what was changed, by numbers; `all`: all that was"),
    "lines": Command("/lines NUMBER [ROW]", "what a change did to lines, row by row, and why"),
    "accept": Command("/accept NUMBERS", "let changes stay, or `all`; asks for several"),
    "reject": Command("/reject NUMBERS", "take changes back, or `all`; asks"),
    "comment": Command(
        "/comment NUMBER ROWS TEXT",
        "say something about rows of a change to who wrote them, such as /comment 2 3-5 why?",
    ),
    "keep": Command("/keep NUMBER ROWS TEXT", "the same, to be sent with others"),
    "review": Command("/review", "send the comments that are kept, all at once; asks"),
    "snapshots": Command("/snapshots", "the snapshots of the files, by numbers"),
    "snapshot": Command("/snapshot TEXT", "keep the files as they are now"),
    "restore": Command("/restore NUMBER", "what a restore of a snapshot would change; asks"),
    "undo": Command(
        "/undo", "take back what was done to files last: a restore, a rejection …; asks"
    ),
}
_SHARED = ("kill", "restart", "stop", "model", *PAGES, "mode", "attach", "fork", "quit")
LINEAR: Mapping[str, Command] = {
    **_OWN,
    **_FILES,
    **{name: COMMANDS[name] for name in _SHARED},
}
MANY: Mapping[str, Command] = {
    "sessions": Command("/sessions", "leave the session, if one is open: all of them, by numbers"),
    "visit": Command("/visit NUMBER", "open a session of the list; what runs elsewhere goes on"),
    "new": Command("/new [FOLDER]", "what you type next is a task for a new session, there"),
    "resume": Command("/resume [NUMBER]", "go on with a run that was cut off"),
    "end": Command("/end NUMBER", "end the run of a session as interrupted; asks"),
    "rename": Command("/rename [NUMBER] NAME", "what a session is called; nothing: by its task"),
    "export": Command("/export [NUMBER] FILE", "write a session to a file: .json, .jsonl or .html"),
    "delete": Command("/delete NUMBER", "delete a session for good; asks"),
}

_YES = frozenset({"1", "y", "yes"})


def help_lines(known: Mapping[str, Command] = LINEAR) -> Sequence[str]:
    """Return commands as lines."""
    return [f"help: {command.usage}: {command.does}" for command in known.values()]


def numbered(typed: str, known: Sequence[str]) -> Sequence[str] | None:
    """Return the ids that numbers mean, of those that are known; None where one is none."""
    words = re.split(r"[,\s]+", typed.strip())
    if not all(word.isascii() and word.isdigit() and len(word) < 7 for word in words):
        return None
    places = [int(word) for word in words]
    if not all(1 <= place <= len(known) for place in places):
        return None
    return list(dict.fromkeys(known[place - 1] for place in places))


def number_of(id_: str, known: list[str]) -> int:
    """Return the number of something, from 1; it keeps the number."""
    if id_ not in known:
        known.append(id_)
    return known.index(id_) + 1


def is_yes(typed: str) -> bool:
    """Return whether a question is answered by yes; anything else is a no."""
    return typed.strip().lower() in _YES
