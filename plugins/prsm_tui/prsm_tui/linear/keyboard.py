"""What is typed, key by key: the terminal neither echoes nor edits, so that no line is torn."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import re
import select
import signal
import termios
from typing import TYPE_CHECKING, Protocol, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_CHUNK = 4096
_MAX_LINE = 1 << 16
LEAVE, END = "\x03", "\x04"
_BACKSPACE, _KILL_LINE, _KILL_WORD = "\x7f\x08", "\x15", "\x17"
_NEW_LINE = ("\x1b\r", "\x1b\n")  # Alt+Enter
_PASTE_BEGINS, _PASTE_ENDS = "\x1b[200~", "\x1b[201~"
_PASTES_ON, _PASTES_OFF = "\x1b[?2004h", "\x1b[?2004l"
# A key that is no character sends a sequence; its beginning may come alone.
_KEY = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1bO.|\x1b[^\[O]|\x1b$|[^\x1b]", re.DOTALL)
_BEGUN = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|O)")


class Typing(Protocol):
    """Who is told what is typed."""

    def begin_line(self) -> None:
        """Hear that the first key of a line was pressed."""

    def added(self, draft: str, key: str) -> None:
        """Hear that a sign was added to the line."""

    def erased(self, draft: str, erased: str) -> None:
        """Hear that signs were taken off its end."""

    def entered(self, line: str) -> None:
        """Hear a line that was ended."""

    def leaving(self, *, at_once: bool) -> None:
        """Hear that the person leaves; `at_once`: the terminal has gone."""


class Keyboard:
    """Owns a terminal's input: its mode, and the line that is being typed.

    It waits for no output: neither for what is written to `screen`, where its codes go, nor for the
    terminal to take what was written before its mode changes.
    """

    def __init__(self, descriptor: int, typing: Typing, screen: TextIO) -> None:
        self._descriptor = descriptor
        self._typing = typing
        self._screen = screen
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._keys = ""
        self._is_pasting = False
        self._is_forgetting = False
        self.draft = ""

    async def serve(self) -> None:
        """Read until cancelled, or until the terminal has gone."""
        loop, ready = asyncio.get_running_loop(), asyncio.Event()
        with self._taken():
            loop.add_reader(self._descriptor, ready.set)
            loop.add_signal_handler(signal.SIGCONT, self._take)  # a shell may have changed it
            try:
                while True:
                    await ready.wait()
                    ready.clear()
                    if not self._read():
                        self._typing.leaving(at_once=True)
                        return
            finally:
                loop.remove_signal_handler(signal.SIGCONT)
                loop.remove_reader(self._descriptor)

    def forget(self) -> None:
        """Drop what was typed and not read yet: it was meant for what stood there before."""
        self._is_forgetting = True
        with contextlib.suppress(termios.error):  # it has gone; reading tells
            termios.tcflush(self._descriptor, termios.TCIFLUSH)

    def _read(self) -> bool:
        """Take what was typed, if anything; return whether the terminal is still there."""
        try:
            if not select.select([self._descriptor], [], [], 0)[0]:
                return True
            chunk = os.read(self._descriptor, _CHUNK)
        except OSError:  # it was hung up
            return False
        self.take(self._decode(chunk))
        return bool(chunk)

    def take(self, typed: str) -> None:
        """Take keys; of one that sends several signs the beginning may come alone."""
        keys, self._keys = self._keys + typed, ""
        self._is_forgetting = False
        while keys and not self._is_forgetting:
            if _BEGUN.fullmatch(keys):
                self._keys = keys[:_MAX_LINE]
                return
            key = _KEY.match(keys)
            if key is None:
                return
            keys = keys[key.end() :]
            self._press(key[0])

    def _press(self, key: str) -> None:
        if key in _NEW_LINE or (self._is_pasting and key == "\r"):
            self._add("\n")
        elif key in (_PASTE_BEGINS, _PASTE_ENDS):
            self._is_pasting = key == _PASTE_BEGINS
        elif self._is_pasting and len(key) == 1:
            self._add(key)
        elif key in "\r\n":
            line, self.draft = self.draft, ""
            self._typing.entered(line)
        elif key in (LEAVE, END):
            if key == LEAVE or not self.draft:
                self._typing.leaving(at_once=False)
        elif key in f"{_BACKSPACE}{_KILL_LINE}{_KILL_WORD}":
            self._erase(self._shortened(key))
        elif len(key) == 1:
            self._add(key)

    def _shortened(self, key: str) -> str:
        """Return the line without what a key takes off its end."""
        if key in _BACKSPACE:
            return self.draft[:-1]
        return "" if key == _KILL_LINE else re.sub(r"\S*\s*$", "", self.draft)

    def _add(self, key: str) -> None:
        if not (key.isprintable() or key == "\n") or len(self.draft) >= _MAX_LINE:
            return
        if not self.draft:
            self._typing.begin_line()
        self.draft += key
        self._typing.added(self.draft, key)

    def _erase(self, draft: str) -> None:
        if self.draft:
            erased, self.draft = self.draft[len(draft) :], draft
            self._typing.erased(draft, erased)

    @contextlib.contextmanager
    def _taken(self) -> Iterator[None]:
        """Have the terminal without its echo, and Ctrl+C as a key; then as it was."""
        before = termios.tcgetattr(self._descriptor)
        self._take()
        try:
            yield
        finally:
            with contextlib.suppress(termios.error, OSError):  # it has gone
                self._send(_PASTES_OFF)
                termios.tcsetattr(self._descriptor, termios.TCSANOW, before)

    def _take(self) -> None:
        with contextlib.suppress(termios.error, OSError):  # it has gone; reading tells
            now = termios.tcgetattr(self._descriptor)
            now[3] &= ~(termios.ICANON | termios.ECHO)
            now[6][termios.VINTR] = b"\0"
            now[6][termios.VMIN], now[6][termios.VTIME] = 1, 0
            termios.tcsetattr(self._descriptor, termios.TCSANOW, now)
            self._send(_PASTES_ON)

    def _send(self, code: str) -> None:
        self._screen.write(code)
        self._screen.flush()


def columns_of(descriptor: int) -> Callable[[], int | None]:
    """Return how to ask for the width of a terminal."""

    def columns() -> int | None:
        try:
            return os.get_terminal_size(descriptor).columns or None
        except OSError:  # it has gone
            return None

    return columns
