"""Finds the plugin that a frame of the stack belongs to, only after something went wrong."""

from __future__ import annotations

import sys
from traceback import walk_stack, walk_tb
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from prsm_core.distributions import CORE_ROOT, GROUP, distribution_of, entry_points, root_of

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable
    from types import CodeType, FrameType

_DEBUGGERS = frozenset({"bdb", "pdb"})


_roots: set[str] = set()  # the top packages that plugins' code was registered from


def note_module(module: str) -> None:
    """Take note of the module of something that a plugin has registered."""
    if root := root_of(module):
        _roots.add(root)


class Place(Struct, frozen=True):
    """A line of code, and the distribution of the plugin it belongs to; None: it is no plugin's."""

    code: CodeType
    line: int
    owner: str | None = None
    is_plugin: bool = False

    def __str__(self) -> str:
        """Return it as people read it."""
        whose = "" if self.owner is None else f" of {self.owner}"
        return f"{self.code.co_name}{whose} ({self.code.co_filename}, line {self.line})"


def place_of_frame(frame: FrameType | None) -> Place | None:
    """Return where a stack is, in the code of the plugin that was called last.

    Without a plugin it is the innermost place outside the standard library; None if there is none,
    or a debugger holds the stack.
    """
    frames = [] if frame is None else list(walk_stack(frame))
    if any(_module(found) in _DEBUGGERS for found, _ in frames):
        return None
    return _place(frames)


def place_of_error(error: BaseException) -> Place | None:
    """Return where an exception was raised, in the code of a plugin where there is some."""
    return _place(reversed(list(walk_tb(error.__traceback__))))


def place_of_task(task: asyncio.Task[Any]) -> Place | None:
    """Return where a task waits, in the code of a plugin where it does."""
    frames = []
    waiting: Any = task.get_coro()
    while waiting is not None and (frame := _first(waiting, "frame")) is not None:
        frames.append((frame, frame.f_lineno or 0))
        waiting = _first(waiting, "await", "yieldfrom")
    return _place(reversed(frames))


def _place(frames: Iterable[tuple[FrameType, int]]) -> Place | None:
    named = {root_of(point.module) for point in entry_points(GROUP)}
    roots = (_roots | named) - {CORE_ROOT, ""}
    first = None
    for frame, line in frames:
        root = root_of(_module(frame))
        if root in roots:
            owner = distribution_of(root) or f"plugin code {root}"
            return Place(frame.f_code, line, owner, is_plugin=True)
        if first is None and root not in sys.stdlib_module_names:
            first = Place(frame.f_code, line, distribution_of(root))
        if root == CORE_ROOT:  # which was called by whatever is further out
            return first
    return first


def _first(waiting: object, *what: str) -> Any:
    """Return an attribute of a coroutine or a generator, of whatever kind it is."""
    names = [f"{kind}_{name}" for kind in ("cr", "ag", "gi") for name in what]
    return next((getattr(waiting, name) for name in names if hasattr(waiting, name)), None)


def _module(frame: FrameType) -> str:
    name = frame.f_globals.get("__name__")
    return name if isinstance(name, str) else ""
