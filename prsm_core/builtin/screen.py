"""The console's one hand on stderr: lines, a status that comes and goes, an open prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterable


class Screen:
    """Prints lines so that neither the status nor an open prompt is torn.

    The status is shown on a terminal only, and never while a prompt is open.
    """

    def __init__(self, stream: TextIO, *, is_terminal: bool) -> None:
        self._stream = stream
        self._is_terminal = is_terminal
        self._status = ""
        self._prompt = ""

    @property
    def is_asking(self) -> bool:
        """Whether a prompt is open."""
        return bool(self._prompt)

    def print_lines(self, lines: Iterable[str]) -> None:
        """Print lines above the status or the prompt."""
        text = "".join(f"{line}\n" for line in lines)
        if not text:
            return
        self._erase_status()
        self._stream.write(("\n" if self._prompt else "") + text + self._prompt)
        self._stream.flush()

    def show_status(self, text: str) -> None:
        """Replace the status line."""
        if self._is_terminal and not self._prompt:
            self._erase_status()
            self._status = text
            self._stream.write(text)
            self._stream.flush()

    def open_prompt(self, text: str) -> None:
        """Show a prompt and leave the cursor behind it."""
        self._erase_status()
        self._prompt = text
        self._stream.write(text)
        self._stream.flush()

    def close_prompt(self, *, answered: bool) -> None:
        """Forget the prompt, if one is open; a typed answer has ended the line already."""
        was_open, self._prompt = self.is_asking, ""
        if was_open and not (answered and self._is_terminal):
            self._stream.write("\n")
            self._stream.flush()

    def close(self) -> None:
        """Leave an empty line to the shell."""
        self._erase_status()
        self._stream.flush()

    def _erase_status(self) -> None:
        if self._status:
            self._stream.write("\r" + " " * len(self._status) + "\r")
            self._status = ""
