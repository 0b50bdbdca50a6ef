"""Tells Ctrl-C from a KeyboardInterrupt that some code has only raised.

Our handlers of SIGINT note it first. While one of them is set, a KeyboardInterrupt without a note
is an error of its code. Under any other handler, Python's or a debugger's, each counts as Ctrl-C.
"""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    Handler = Callable[[int, FrameType | None], Any]

H = TypeVar("H", bound="Handler")

_noting: list[Handler] = []  # the handlers that are there, the last one set on top
_came = False


def note_interrupt() -> None:
    """Take note of a Ctrl-C; for handlers of SIGINT."""
    global _came
    _came = True


@contextmanager
def noting_interrupts(handler: Handler) -> Iterator[None]:
    """Set a handler that calls `note_interrupt` for SIGINT meanwhile.

    Not if SIGINT is ignored, somebody else's, or in another thread than the main one. The first
    that is set forgets what came before.
    """
    global _came
    before = signal.getsignal(signal.SIGINT)
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or (before is not signal.default_int_handler and before not in _noting):
        yield
        return
    if not _noting:
        _came = False
    signal.signal(signal.SIGINT, handler)
    _noting.append(handler)
    try:
        yield
    finally:
        _noting.remove(handler)
        if signal.getsignal(signal.SIGINT) is handler:
            signal.signal(signal.SIGINT, before)


def is_interrupt(error: BaseException) -> bool:
    """Return whether an exception is Ctrl-C, or a group with one."""
    if isinstance(error, BaseExceptionGroup):
        return any(is_interrupt(inner) for inner in error.exceptions)
    return isinstance(error, KeyboardInterrupt) and not _is_made_up()


def raise_interrupt(_number: int, _frame: FrameType | None) -> None:
    """Do what Python does by itself on SIGINT, and note it."""
    note_interrupt()
    raise KeyboardInterrupt


def _is_made_up() -> bool:
    if threading.current_thread() is not threading.main_thread():
        return True  # handlers of signals run in the main thread
    return bool(_noting) and not _came
