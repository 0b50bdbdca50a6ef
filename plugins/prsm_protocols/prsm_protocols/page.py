"""What one page of a protocol says, as frozen values; `printed` is its canonical text.

Two pages that say the same have one canonical text, whatever their prose, their marks of emphasis
and their line ends are. It is markdown, and reading it gives the same page.
"""

from __future__ import annotations

import operator
import re
from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

NOBODY = "nobody"  # the one entry of `## Messages` by which an agent writes to no other
NOTHING = "none"  # what `tools:` says where a state has no tool

_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    ">": operator.gt,
    "<=": operator.le,
    "<": operator.lt,
}
_UNITS = {"d": 86_400, "h": 3600, "m": 60, "s": 1}
_MARKS = re.compile(r"[\\`*<&\[\]]|(?<![^\W_])_|_(?![^\W_])")


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of the values of a page."""


class SessionRule(StrEnum):
    """What becomes of a program's conversation as it comes to another state."""

    CONTINUE = "continue"
    RESTART = "restart"


class MasterRule(StrEnum):
    """Whether a master that begins under a protocol works itself."""

    DELEGATE = "delegate"
    SOLO = "solo"


class Within(Record, frozen=True):
    """A state is left by itself after so many seconds."""

    seconds: int
    to: str


class Guard(Record, frozen=True):
    """What must hold of the share of the model's context that is used, 0 to 1."""

    sign: str  # >=, >, <= or <
    share: float

    def holds(self, used: float) -> bool:
        """Return whether a share that is used opens the transition."""
        return _COMPARISONS[self.sign](used, self.share)

    @property
    def can_hold(self) -> bool:
        """Whether any share from 0 to 1 opens it."""
        return self.holds(0.0) or self.holds(1.0)

    def __str__(self) -> str:
        return f"context {self.sign} {self.share:g}"


class State(Record, frozen=True):
    """A state: what it is for, the tools that it allows (None: all), and when it is over."""

    name: str
    description: str = ""
    tools: tuple[str, ...] | None = None
    message: str = ""
    within: Within | None = None


class Transition(Record, frozen=True):
    """A move that an agent may make, and when it should."""

    source: str
    target: str
    when: str = ""
    guard: Guard | None = None


class Page(Record, frozen=True):
    """A protocol as its page says it.

    `messages` are the names of agents and protocols that its agents may write to, None for all
    agents of the run; `upgrades` the states of an older version and what they are called now.
    With `solo` a master that begins under it works itself.
    """

    name: str
    states: tuple[State, ...]
    transitions: tuple[Transition, ...] = ()
    messages: tuple[str, ...] | None = None
    session: SessionRule = SessionRule.CONTINUE
    upgrades: tuple[tuple[str, str], ...] = ()
    solo: bool = False

    @property
    def initial(self) -> str:
        """The state that an agent begins in: that of the protocol's name, else the first."""
        names = [state.name for state in self.states]
        return self.name if self.name in names else names[0]


def duration(seconds: int) -> str:
    """Return seconds as a page says them, such as 30m."""
    unit = next(unit for unit, size in _UNITS.items() if seconds % size == 0)
    return f"{seconds // _UNITS[unit]}{unit}"


def seconds_of(count: str, unit: str) -> int:
    """Return how many seconds a duration of a page is; the inverse of `duration`."""
    return int(count) * _UNITS[unit]


def printed(page: Page) -> str:
    """Return the canonical text of a page."""
    parts = [f"# Protocol: {_text(page.name)}", _section("States", _states(page))]
    if page.transitions:
        parts.append(_section("Transitions", _transitions(page)))
    if page.messages is not None:
        names = page.messages or (NOBODY,)
        parts.append(_section("Messages", (f"- {_text(name)}" for name in names)))
    if page.session is not SessionRule.CONTINUE:
        parts.append(f"## Session\n{page.session}\n")
    if page.solo:
        parts.append(f"## Master\n{MasterRule.SOLO}\n")
    if page.upgrades:
        pairs = (f"- {_text(old)} → {_text(new)}" for old, new in page.upgrades)
        parts.append(_section("Upgrades", pairs))
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def _section(title: str, lines: Iterator[str]) -> str:
    return "\n".join([f"## {title}", *lines])


def _states(page: Page) -> Iterator[str]:
    for state in page.states:
        yield f"- {_text(state.name)}{_after(state.description)}"
        if state.tools is not None:
            yield f"  - tools: {', '.join(map(_text, state.tools)) or NOTHING}"
        if state.message:
            yield f"  - message: {_text(state.message)}"
        if state.within is not None:
            yield f"  - within: {duration(state.within.seconds)} → {_text(state.within.to)}"


def _transitions(page: Page) -> Iterator[str]:
    for each in page.transitions:
        yield f"- {_text(each.source)} → {_text(each.target)}{_after(each.when)}"
        if each.guard is not None:
            yield f"  - guard: context {_text(each.guard.sign)} {each.guard.share!r}"


def _after(text: str) -> str:
    return f": {_text(text)}" if text else ""


def _text(text: str) -> str:
    """Return a text with a backslash before what markdown would take for a mark."""
    return _MARKS.sub(lambda mark: "\\" + mark[0], text)
