r"""A pseudo-terminal in place of stdin, stdout and stderr, with a person's hands and eyes.

In a test of a frontend::

    with open_terminal() as terminal:
        running = group.create_task(MyFrontend({}).run(app))
        await terminal.shows("[y/n]")
        terminal.type("y\n")
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import termios
import time
from contextlib import contextmanager, suppress
from threading import Thread
from typing import TYPE_CHECKING, TextIO, cast

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SHOWS_SECONDS = 10.0
_SIZE = (24, 80)  # rows, columns
_POLL_SECONDS = 0.01
_MARK = b"\x1b]prsm-mark\x07"  # a mark of our own in what is written
_MODE = re.compile(rb"\x1b\[\?([\d;]+)([hl])")
_ON_BY_DEFAULT = frozenset({"7", "25"})  # lines wrap, the cursor is visible


class Terminal:
    """The person's side of the terminal."""

    def __init__(self, person: int, program: int) -> None:
        self._person = person
        self._program = program
        self._written = bytearray()
        self._marks = 0
        self._attributes = termios.tcgetattr(program)

    @property
    def text(self) -> str:
        """Everything that was written so far, echoed keys included."""
        return bytes(self._written).replace(_MARK, b"").decode(errors="replace")

    @property
    def disorder(self) -> Sequence[str]:
        """What a program has left different from how it found it; empty if nothing."""
        self._catch_up()
        changed = termios.tcgetattr(self._program) != self._attributes
        left = {}
        for modes, letter in _MODE.findall(bytes(self._written)):
            left.update(dict.fromkeys(modes.decode().split(";"), letter == b"h"))
        wrong = [mode for mode, on in left.items() if on != (mode in _ON_BY_DEFAULT)]
        return [*(["line settings"] if changed else []), *(f"mode {mode}" for mode in wrong)]

    def type(self, keys: str) -> None:
        """Type keys; a line end is the return key."""
        os.write(self._person, keys.encode())

    async def shows(self, text: str) -> None:
        """Wait until `text` was written; raise TimeoutError after 10 s."""
        async with asyncio.timeout(SHOWS_SECONDS):
            while text not in self.text:  # noqa: ASYNC110 - another thread reads
                await asyncio.sleep(_POLL_SECONDS)

    def _catch_up(self) -> None:
        """Wait until the reader has seen everything that was written before this."""
        end = time.monotonic() + SHOWS_SECONDS
        self._marks += 1
        os.write(self._program, _MARK)
        while self._written.count(_MARK) < self._marks:
            if time.monotonic() > end:
                raise TimeoutError("the terminal's reader has stopped")
            time.sleep(_POLL_SECONDS)

    def read_all(self) -> None:
        """Read until the program's side is closed: run in a thread, so that writing never waits."""
        with suppress(OSError):  # EIO is how a terminal says so
            while chunk := os.read(self._person, 4096):
                self._written += chunk


@contextmanager
def open_terminal() -> Iterator[Terminal]:
    """Put a new terminal of 80 columns in place of sys.stdin, sys.stdout and sys.stderr."""
    person, program = os.openpty()
    termios.tcsetwinsize(program, _SIZE)
    terminal = Terminal(person, program)
    reader = Thread(target=terminal.read_all, daemon=True)
    reader.start()
    try:
        with open_streams(program, program, program):
            yield terminal
    finally:
        os.close(program)
        reader.join()
        os.close(person)


@contextmanager
def open_streams(stdin: int, stdout: int, stderr: int) -> Iterator[None]:
    """Put streams over these descriptors in place of the standard ones; they stay open."""
    before = sys.stdin, sys.stdout, sys.stderr
    streams = _stream(stdin, "r"), _stream(stdout, "w"), _stream(stderr, "w")
    sys.stdin, sys.stdout, sys.stderr = streams
    try:
        yield
    finally:
        sys.stdin, sys.stdout, sys.stderr = before
        for stream in streams:
            with suppress(OSError):  # nobody may be left to read what is still in it
                stream.close()


def _stream(descriptor: int, mode: str) -> TextIO:
    return cast("TextIO", os.fdopen(descriptor, mode, closefd=False, encoding="utf-8"))
