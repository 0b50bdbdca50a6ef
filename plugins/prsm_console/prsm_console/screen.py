"""The console's one hand on stderr: lines, a status that comes and goes, what is asked."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TextIO

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class Shown(Struct, frozen=True):
    """A request as a person sees it."""

    request: str  # its id
    lines: Sequence[str]
    what: str = ""  # the command, the file or the like, where its first line does not say

    @property
    def head(self) -> str:
        """Its first line, with what it is about."""
        return f"{self.lines[0]}: {self.what}" if self.what else self.lines[0]


class Screen:
    """Writes line after line: for a pipe, a file, and a terminal that can do no more."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._prompt = ""
        self._described: set[str] = set()

    @property
    def is_asking(self) -> bool:
        """Whether a prompt is open."""
        return bool(self._prompt)

    def print_lines(self, lines: Iterable[str]) -> None:
        """Print lines, and an open prompt once more."""
        text = "".join(f"{line}\n" for line in lines)
        if text:
            self.write(("\n" if self._prompt else "") + text + self._prompt)

    def show_status(self, text: str) -> None:
        """Replace the status line. Here is none: a line that is written stays."""

    def show_requests(self, requests: Sequence[Shown], *, again: str = "") -> None:
        """Show what the next prompt is about; `again` says how to see what does not fit.

        What is asked about is printed last, right above its prompt, and before it what is new.
        """
        first, *others = requests
        new = [shown for shown in others if shown.request not in self._described]
        if new:
            self.print_lines([f"{len(new)} more to answer:"])
        for shown in (*new, first):
            self._described.add(shown.request)
            self.print_lines(shown.lines)

    def show_waiting(self, count: int) -> None:
        """Show how many requests wait behind those asked about. Here each is printed in turn."""

    def show_again(self) -> bool:
        """Print what is asked once more; return whether this screen does that."""
        return False

    def forget(self, request: str) -> None:
        """Take back a request: it is answered, or has ended otherwise."""
        self._described.discard(request)

    def open_prompt(self, text: str) -> None:
        """Show a prompt and leave the cursor behind it."""
        self._prompt = text
        self.write(text)

    def close_prompt(self, *, answered: bool) -> None:
        """Forget the prompt, if one is open."""
        was_open, self._prompt = self.is_asking, ""
        # A typed answer has ended the line already.
        if was_open and not (answered and self._stream.isatty()):
            self.write("\n")

    def step_back(self, is_away: bool) -> None:
        """Leave the terminal's bottom to whoever has it while this process is in the background."""

    def close(self) -> None:
        """Leave an empty line to the shell."""
        self._stream.flush()

    def write(self, text: str) -> None:
        """Write and flush a text, or a code that draws nothing."""
        self._stream.write(text)
        self._stream.flush()


def can_move(stream: TextIO) -> bool:
    """Return whether a stream is a terminal on which the cursor can be moved."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"
