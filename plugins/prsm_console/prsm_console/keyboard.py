"""What a person types on a terminal: answers while something is asked, else prompts to agents.

A line counts for what was open when its first key was pressed. One that was begun before a request
is a prompt, however late it ends; one that answers what has ended meanwhile is told, and dropped.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import re
import select
import termios
import tty
from typing import TYPE_CHECKING

from prsm_console.asking import LineReader, until_readable
from prsm_core.terminal import is_in_front

if TYPE_CHECKING:
    from collections.abc import Callable

    from prsm_console.live_screen import LiveScreen

_CHUNK = 4096
_MAX_LINE = 1 << 16
_END = "\x04"
_BACKSPACE, _KILL_LINE, _KILL_WORD, _REDRAW = "\x7f\x08", "\x15", "\x17", "\x0c"
_PASTE_BEGINS, _PASTE_ENDS = "\x1b[200~", "\x1b[201~"
_PASTES_ON, _PASTES_OFF = "\x1b[?2004h", "\x1b[?2004l"
# A key that is no character sends a sequence; its beginning may come alone.
_KEY = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1bO.|\x1b[^\[O]|\x1b$|[^\x1b]", re.DOTALL)
_BEGUN = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|O)")


class Keyboard(LineReader):
    """Owns a terminal's input: its mode, the line being typed, and whose each line is.

    With a `view` keys are read one by one and shown there, since the terminal's own echo would be
    torn by what is printed. Without one the terminal edits lines by itself. It reads nothing while
    its process is in the background. The end of input is an answer, namely none; where the person
    `leaves` by it, it is no answer at all.
    """

    def __init__(
        self,
        descriptor: int,
        *,
        on_prompt: Callable[[str], None],
        tell: Callable[[str], None],
        view: LiveScreen | None = None,
        leaves: bool = False,
    ) -> None:
        self.ended = asyncio.Event()  # the terminal has gone, or its person leaves
        self._leaves = leaves
        super().__init__(descriptor)
        self._terminal = descriptor
        self._on_prompt = on_prompt
        self._tell = tell
        self._view = view
        self._before: list[object] | None = None  # the terminal's mode, while ours holds
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._keys = ""  # a sequence whose end has not come
        self._line = ""
        self._is_pasting = False
        self._listing = 0  # counts what was asked; odd while something is
        self._line_for = 0  # the listing for which the line was begun
        self._answers: asyncio.Queue[str | None] = asyncio.Queue()
        self._front = asyncio.Event()

    @property
    def draft(self) -> str:
        """A prompt that was begun and not sent."""
        return "" if self._line_for % 2 else self._line

    async def serve(self) -> None:
        """Read until cancelled or the terminal has gone."""
        while not self.ended.is_set():
            if self.refresh():
                await until_readable(self._terminal)
                if self._is_in_front():
                    self._read()
            else:
                self._front.clear()
                await self._front.wait()

    def refresh(self) -> bool:
        """Take the terminal if this process is in front; return whether it is. Call it often.

        A shell gives the terminal back in another mode than it was taken in.
        """
        if not self._is_in_front():
            return False
        self._front.set()
        if self._view is not None:
            with contextlib.suppress(termios.error):  # it has gone; reading tells
                self._take_mode(self._view)
        return True

    def begin_answer(self) -> None:
        """From now on a line that is begun is an answer; what was typed before is none."""
        if not self.ended.is_set() and self._is_in_front():
            self._read(waiting=False)
            if self._view is None:
                with contextlib.suppress(termios.error):
                    termios.tcflush(self._terminal, termios.TCIFLUSH)
        while not self._answers.empty():
            self._answers.get_nowait()
        self._listing += 1 + self._listing % 2
        if self.ended.is_set():
            self._answer_nothing()
        self._show()

    def end_answer(self) -> None:
        """From now on a line that is begun is a prompt again."""
        self._listing += self._listing % 2
        self._show()

    async def read_line(self) -> str | None:
        """Return the next answer, None when there will be none."""
        return await self._answers.get()

    def close(self) -> None:
        """Give the terminal back as it was found."""
        if self._before is None:
            return
        before, self._before = self._before, None
        if self._is_in_front():
            with contextlib.suppress(termios.error, OSError):
                if self._view is not None:
                    self._view.write(_PASTES_OFF)
                # Not TCSADRAIN: it waits for a terminal that may take nothing.
                termios.tcsetattr(self._terminal, termios.TCSANOW, before)  # type: ignore[arg-type]

    def _is_in_front(self) -> bool:
        return is_in_front(self._terminal)

    def _take_mode(self, view: LiveScreen) -> None:
        now = termios.tcgetattr(self._terminal)
        if now[3] & (termios.ICANON | termios.ECHO):
            if self._before is None:
                self._before = list(now)
            tty.setcbreak(self._terminal, termios.TCSANOW)  # what is typed already is read
            view.write(_PASTES_ON)

    def _read(self, *, waiting: bool = True) -> None:
        """Take what was typed; with nothing to read it waits, unless it is told not to."""
        try:
            if not waiting and not select.select([self._terminal], [], [], 0)[0]:
                return
            chunk = os.read(self._terminal, _CHUNK)
        except OSError:  # the terminal was hung up (EIO): the same as its end
            chunk = b""
        if not chunk:
            self._end()
        self._keys += self._decode(chunk)
        self._take_keys()

    def _take_keys(self) -> None:
        keys, self._keys = self._keys, ""
        while keys:
            if _BEGUN.fullmatch(keys):
                self._keys = keys[:_MAX_LINE]
                break
            key = _KEY.match(keys)
            if key is None:
                break
            keys = keys[key.end() :]
            self._press(key[0])
        self._show()

    def _press(self, key: str) -> None:
        if key in (_PASTE_BEGINS, _PASTE_ENDS):
            self._is_pasting = key == _PASTE_BEGINS
        elif self._is_pasting and len(key) == 1:
            self._add("\n" if key == "\r" else key)
        elif key in "\r\n":
            self._end_line()
        elif key == _END:
            self._end_of_input()
        elif len(key) == 1 and not self._edit(key):
            self._add(key)

    def _edit(self, key: str) -> bool:
        """Shorten the line; return whether the key is none that is written."""
        if key in _BACKSPACE:
            self._line = self._line[:-1]
        elif key == _KILL_LINE:
            self._line = ""
        elif key == _KILL_WORD:
            self._line = re.sub(r"\S*\s*$", "", self._line)
        return not key.isprintable() and key != "\t"

    def _add(self, char: str) -> None:
        if not self._line:
            self._line_for = self._listing
        if len(self._line) < _MAX_LINE:
            self._line += char

    def _end_line(self) -> None:
        line, begun_for = self._line, self._line_for if self._line else self._listing
        self._line = ""
        if not begun_for % 2:
            if line.strip():
                self._on_prompt(line)
        elif begun_for == self._listing:
            self._answers.put_nowait(line)
        else:
            self._tell(f"not taken: {line.strip()!r}: what it was the answer to has changed")

    def _end_of_input(self) -> None:
        """Take the key for the end of input, which counts at the beginning of a line."""
        if self._line:
            return
        if self._leaves:
            self.ended.set()
        elif self._listing % 2:
            self._answer_nothing()

    def _end(self) -> None:
        self.ended.set()
        self._answer_nothing()

    def _answer_nothing(self) -> None:
        if not self._leaves:
            self._answers.put_nowait(None)

    def _show(self) -> None:
        if self._view is not None:
            is_draft = bool(self._line) and self._line_for != self._listing
            self._view.show_typed(self._line, is_draft=is_draft)
