r"""A pseudo-terminal in place of stdin, stdout and stderr, with a person's hands and eyes.

In a test of a frontend::

    with open_terminal() as terminal:
        running = group.create_task(MyFrontend({}).run(app))
        await terminal.shows("[y/n]")
        terminal.type("y\n")

What a program draws, rather than writes line by line, is looked for in `terminal.screen`.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import re
import signal
import sys
import termios
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Thread
from typing import TYPE_CHECKING, Any, TextIO, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

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
        self._sizes = [(0, _SIZE)]  # from which of the bytes on the terminal has which
        self._drawn: tuple[Emulator, int, int] | None = None  # it, of how many bytes and sizes
        self._attributes = termios.tcgetattr(program)

    @property
    def text(self) -> str:
        """Everything that was written so far, echoed keys included."""
        return bytes(self._written).replace(_MARK, b"").decode(errors="replace")

    @property
    def screen(self) -> Screen:
        """What a person sees of all that was written before this."""
        self._catch_up()
        emulator, begin, known = self._drawn or (Emulator(*_SIZE), 0, 1)
        written = bytes(self._written)
        for at, size in self._sizes[known:]:
            emulator.write(written[begin:at].replace(_MARK, b""))
            emulator.resize(*size)
            begin = at
        emulator.write(written[begin:].replace(_MARK, b""))
        self._drawn = emulator, len(written), len(self._sizes)
        return emulator.show()

    def resize(self, rows: int, columns: int) -> None:
        """Change the terminal's size, and tell the program so by SIGWINCH.

        The screen is empty then: what is to be seen has to be drawn again.
        """
        self._catch_up()
        self._sizes.append((len(self._written), (rows, columns)))
        termios.tcsetwinsize(self._program, (rows, columns))
        signal.raise_signal(signal.SIGWINCH)

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
        await _until(lambda: text in self.text)

    async def draws(self, text: str) -> None:
        """Wait until `text` is to be seen on the screen; raise TimeoutError after 10 s."""
        await _until(lambda: text in self.screen.text)

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


async def _until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(SHOWS_SECONDS):
        while not is_so():  # noqa: ASYNC110 - another thread reads
            await asyncio.sleep(_POLL_SECONDS)


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


@dataclass(frozen=True, slots=True)
class Screen:
    """What a person sees at one moment; rows and columns are counted from 0."""

    lines: tuple[str, ...]  # one for each row, without the blanks at its end
    columns: int
    cursor: tuple[int, int]  # row, column
    has_cursor: bool  # it is visible

    @property
    def text(self) -> str:
        """All of it, row by row."""
        return "\n".join(self.lines)


class Emulator:
    """Draws what is written; its rows and columns may change in between."""

    def __init__(self, rows: int, columns: int) -> None:
        """Begin with an empty screen."""
        # Few tests draw a screen, and the others must not pay for its import.
        pyte: Any = importlib.import_module("pyte")
        self._screen: Any = pyte.Screen(columns, rows)
        self._stream: Any = pyte.ByteStream(self._screen)

    def write(self, data: bytes) -> None:
        """Draw what a program writes."""
        self._stream.feed(data)

    def resize(self, rows: int, columns: int) -> None:
        """Change the size; what was drawn is lost, as terminals differ in what they keep of it."""
        self._screen.resize(rows, columns)
        self._screen.erase_in_display(2)

    def show(self) -> Screen:
        """Return what is to be seen now."""
        screen = self._screen
        return Screen(
            lines=tuple(line.rstrip() for line in screen.display),
            columns=screen.columns,
            cursor=(screen.cursor.y, screen.cursor.x),
            has_cursor=not screen.cursor.hidden,
        )
