"""Whether the terminal is this process' own now, and what is left in it at the end.

Light, since every run asks: what reads a terminal is imported only if there is one.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def stdin_descriptor() -> int | None:
    """Return the descriptor of stdin, None where the process has none."""
    try:
        return sys.stdin.fileno()
    except (AttributeError, OSError):  # closed, or replaced by something in memory
        return None


def is_in_front(descriptor: int) -> bool:
    """Return whether this process may use the terminal: its shell has not sent it to the back."""
    try:
        return os.tcgetpgrp(descriptor) == os.getpgrp()
    except OSError:  # no terminal of this process' session: no shell shares it
        return True


@contextlib.contextmanager
def leaving_nothing_typed(descriptor: int | None) -> Iterator[None]:
    """Drop, at the end, what was typed and not read: a shell would run it as commands."""
    try:
        yield
    finally:
        if descriptor is not None and os.isatty(descriptor) and is_in_front(descriptor):
            _drop_typed(descriptor)


def _drop_typed(descriptor: int) -> None:
    import termios

    with contextlib.suppress(termios.error):  # the terminal has gone
        termios.tcflush(descriptor, termios.TCIFLUSH)
