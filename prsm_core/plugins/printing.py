"""Stdout belongs to the command: what plugins print is logged to stderr.

One object stands in for `sys.stdout` while their code runs. While plugins load, the plugin is
known; while they work, the stack tells whose code it is.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any, TextIO

from prsm_core.loop.blame import place_of_frame
from prsm_core.loop.output import Outlet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import FrameType

    Take = Callable[[str, FrameType], bool]  # whether a text is dealt with; else it is written

STDOUT, STDERR = 1, 2
SHOWN = 2000  # characters: of a line, or of what one plugin prints while it is loaded

_log = logging.getLogger(__name__)


@contextmanager
def stdout_while_loading(plugin: str, thread: threading.Thread | None = None) -> Iterator[None]:
    """Log what is printed meanwhile as a warning that names the plugin; stdout gets none of it.

    That covers `sys.stdout`, its descriptor and programs that inherit it. If `thread` goes on
    afterwards, its part of `sys.stdout` stays cut off.
    """
    stream, loading = sys.stdout, _Loading(plugin, thread)
    stand_in = _StandIn(stream, loading.take, is_terminal=True)
    with os.fdopen(os.memfd_create("printed"), "r+", encoding="utf-8", errors="replace") as file:
        with ExitStack() as stack:
            if sys.__stdout__ is not None:  # else descriptor 1 is not this process's stdout
                stack.enter_context(_descriptor_leads_to(file.fileno()))
            sys.stdout = stand_in
            try:
                yield
            finally:
                is_kept = sys.stdout is stand_in
                sys.stdout = stand_in if thread and thread.is_alive() else stream
                printed = loading.end()
                if not is_kept:
                    _log.warning("plugin %s changed sys.stdout as it was loaded: put back", plugin)
        file.seek(0)
        _tell_loading(plugin, printed + file.read(SHOWN))


@contextmanager
def stdout_kept() -> Iterator[TextIO]:
    """Keep stdout for the command; yield the stream that leads there.

    What others write to `sys.stdout` becomes a warning that names the plugin. What goes to the
    descriptor, also from programs, goes to stderr.
    """
    stream = sys.stdout
    with ExitStack() as stack:
        out = stream
        if isinstance(stream, Outlet):  # which has a descriptor of its own
            aside = stack.enter_context(_aside())
            stack.enter_context(_descriptor_leads_to(aside))
        elif _leads_to_stdout(stream):  # else it is held in memory, and there is no other way to it
            out = stack.enter_context(_moved(stream))
        stack.enter_context(_replaced(_Working()))
        yield out


@contextmanager
def stdout_shared(owner: str | None) -> Iterator[None]:
    """Log what plugins print, but leave stdout to a frontend's distribution, `owner`."""
    with _replaced(_Working(owner, is_shared=True)):
        yield


class _StandIn:
    """Stands in for `sys.stdout`; what `take` does not handle goes to the stream below."""

    def __init__(self, stream: Any, take: Take, *, is_terminal: bool) -> None:
        self._stream = stream
        self._take = take
        self._is_terminal = is_terminal  # what is written here may get there

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        self._put(text, sys._getframe(1))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._put(line, sys._getframe(1))

    def _put(self, text: str, frame: FrameType) -> None:
        if not self._take(text, frame) and self._stream is not None:
            self._stream.write(text)

    def isatty(self) -> bool:
        return bool(self._is_terminal and self._stream is not None and self._stream.isatty())


class _Loading:
    """Keeps what a plugin prints while it is loaded; tells what its thread prints too late."""

    def __init__(self, plugin: str, thread: threading.Thread | None) -> None:
        self._plugin = plugin
        self._thread = thread
        self._printed: list[str] | None = []  # None: the loading is over

    def take(self, text: str, _: FrameType) -> bool:
        if self._printed is not None:
            self._printed.append(text)
        elif threading.current_thread() is self._thread:
            _tell_loading(self._plugin, text)
        else:
            return False
        return True

    def end(self) -> str:
        printed, self._printed = self._printed, None
        return "".join(printed or ())


class _Working:
    """Logs printed lines with the plugin whose code prints them; `is_shared` spares the `owner`."""

    def __init__(self, owner: str | None = None, *, is_shared: bool = False) -> None:
        self._owner = owner
        self.is_shared = is_shared
        self._lines: dict[str, str] = {}  # begun, by who writes them
        self._is_over = False

    def take(self, text: str, frame: FrameType) -> bool:
        place = None if self._is_over else place_of_frame(frame)
        is_foreign = place is not None and place.is_plugin and place.owner != self._owner
        if self._is_over or (self.is_shared and not is_foreign):
            return False
        whose = "something" if place is None or not place.is_plugin else str(place)
        *lines, begun = (self._lines.pop(whose, "") + text).split("\n")
        if begun:
            self._lines[whose] = begun[:SHOWN]
        for line in lines:
            _tell_line(whose, line)
        return True

    def end(self) -> None:
        self._is_over = True
        for whose, begun in self._lines.items():
            _tell_line(whose, begun)
        self._lines.clear()


@contextmanager
def _replaced(working: _Working) -> Iterator[None]:
    before = sys.stdout
    sys.stdout = stand_in = _StandIn(before, working.take, is_terminal=working.is_shared)
    try:
        yield
    finally:
        if sys.stdout is stand_in:
            sys.stdout = before
        working.end()


@contextmanager
def _moved(stream: TextIO) -> Iterator[TextIO]:
    """Let descriptor 1 lead to stderr, and yield a stream to where it led."""
    encoding, errors = stream.encoding or "utf-8", stream.errors or "strict"
    with (
        _aside() as aside,
        _descriptor_leads_to(aside) as kept,
        open(kept, "w", encoding=encoding, errors=errors, closefd=False) as out,
    ):
        yield out


@contextmanager
def _aside() -> Iterator[int]:
    """Yield the descriptor of stderr, or of nowhere where that is closed."""
    try:
        os.fstat(STDERR)
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            yield nowhere
        finally:
            os.close(nowhere)
    else:
        yield STDERR


@contextmanager
def _descriptor_leads_to(target: int) -> Iterator[int]:
    """Let descriptor 1 lead elsewhere; yield a copy of it, or `target` if it is closed."""
    streams = {sys.stdout, sys.__stdout__} - {None}
    _flush(streams)
    try:
        kept = os.dup(STDOUT)
    except OSError:
        yield target
        return
    try:
        os.dup2(target, STDOUT)
        yield kept
    finally:
        _flush(streams)
        os.dup2(kept, STDOUT)
        os.close(kept)


def _flush(streams: set[Any]) -> None:
    for stream in streams:
        # What cannot be written stays in the stream: whoever writes next is told.
        with suppress(OSError, ValueError):
            stream.flush()


def _leads_to_stdout(stream: Any) -> bool:
    try:
        return bool(stream.fileno() == STDOUT)
    except (AttributeError, OSError, ValueError):
        return False


def _tell_loading(plugin: str, text: str) -> None:
    told = " ".join(text.split())[:SHOWN]
    if told:
        _log.warning("plugin %s printed while it was loaded: %s", plugin, told)


def _tell_line(whose: str, line: str) -> None:
    if line.strip():
        _log.warning("%s printed: %s", whose, line[:SHOWN])
