"""Stdout belongs to the command while plugins work: what they print is told on stderr.

What they print while they are loaded is told by `output`: there the plugin is known.
"""

from __future__ import annotations

import logging
import os
import sys
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any, TextIO

from prsm_core.loop.blame import place_of_frame

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import FrameType

    from prsm_core.loop.blame import Place

STDOUT, STDERR = 1, 2
SHOWN = 2000  # characters of a line

_log = logging.getLogger(__name__)


@contextmanager
def stdout_kept() -> Iterator[TextIO]:
    """Keep stdout for the command; yield the stream that leads there.

    What others write to `sys.stdout` is told as a warning, with the plugin whose code does it. What
    goes to the descriptor below, from programs that inherit it too, goes to stderr as it is.
    """
    stream = sys.stdout
    with ExitStack() as stack:
        out = stream
        if _leads_to_stdout(stream):  # else it is held in memory, and there is no other way to it
            out = stack.enter_context(_moved(stream))
        stack.enter_context(_replaced(_Told(stream)))
        yield out


@contextmanager
def stdout_shared(owner: str | None) -> Iterator[None]:
    """Tell what plugins write to `sys.stdout`, but for those of the distribution `owner`.

    For a frontend of a plugin, which has stdout for itself and may do with it what it likes: what
    goes to the descriptor is not looked at.
    """
    with _replaced(_Told(sys.stdout, owner, is_shared=True)):
        yield


@contextmanager
def _replaced(told: _Told) -> Iterator[None]:
    before, sys.stdout = sys.stdout, told
    try:
        yield
    finally:
        if sys.stdout is told:
            sys.stdout = before
        told.end()


@contextmanager
def _moved(stream: TextIO) -> Iterator[TextIO]:
    """Let descriptor 1 lead to stderr, and yield a stream to where it led."""
    stream.flush()
    kept = os.dup(STDOUT)
    try:
        _lead_aside()
        with _opened(kept, stream) as out:
            yield out
    finally:
        for written in (stream, sys.__stdout__):
            with suppress(OSError, ValueError, AttributeError):  # closed, or there is none
                written.flush()  # type: ignore[union-attr]
        os.dup2(kept, STDOUT)
        os.close(kept)


@contextmanager
def _opened(descriptor: int, like: TextIO) -> Iterator[TextIO]:
    """Yield a text stream to a descriptor, which it does not close."""
    encoding, errors = like.encoding or "utf-8", like.errors or "strict"
    with open(descriptor, "w", encoding=encoding, errors=errors, closefd=False) as out:
        yield out


def _lead_aside() -> None:
    """Let descriptor 1 lead to stderr, or nowhere where that is closed."""
    try:
        os.dup2(STDERR, STDOUT)
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, STDOUT)
        os.close(nowhere)


def _leads_to_stdout(stream: Any) -> bool:
    try:
        return bool(stream.fileno() == STDOUT)
    except (AttributeError, OSError, ValueError):
        return False


class _Told:
    """What `sys.stdout` is meanwhile; all that it does not do itself the stream below does.

    With `is_shared` only plugins' code of others than the `owner` is told, the rest is written.
    Who keeps it writes to the stream afterwards.
    """

    def __init__(self, stream: Any, owner: str | None = None, *, is_shared: bool = False) -> None:
        self._stream = stream
        self._owner = owner
        self._is_shared = is_shared
        self._lines: dict[str, str] = {}  # begun, by who writes them
        self._is_over = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Tell what is written, a line at a time, or write it."""
        self._take(text, sys._getframe(1))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write each of them."""
        for line in lines:
            self._take(line, sys._getframe(1))

    def _take(self, text: str, frame: FrameType) -> None:
        place = None if self._is_over else place_of_frame(frame)
        if self._is_over or (self._is_shared and not self._is_foreign(place)):
            self._stream.write(text)
            return
        whose = "something" if place is None or not place.is_plugin else str(place)
        *lines, begun = (self._lines.pop(whose, "") + text).split("\n")
        if begun:
            self._lines[whose] = begun[:SHOWN]
        for line in lines:
            _tell(whose, line)

    def isatty(self) -> bool:
        """Return whether colours and the like have a place here."""
        return bool(self._is_shared and self._stream.isatty())

    def end(self) -> None:
        """Tell what was begun; from now on all is written."""
        self._is_over = True
        for whose, begun in self._lines.items():
            _tell(whose, begun)
        self._lines.clear()

    def _is_foreign(self, place: Place | None) -> bool:
        return place is not None and place.is_plugin and place.owner != self._owner


def _tell(whose: str, line: str) -> None:
    if line.strip():
        _log.warning("%s printed: %s", whose, line[:SHOWN])
