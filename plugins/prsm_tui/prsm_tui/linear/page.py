"""The lines that are written, and the one that is being typed: nothing is ever written over.

While a person types, what comes is held until the line ends, or until they have paused: a line that
is spoken or read is not torn. What was typed before a pause is written again with the next key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

from rich.cells import cell_len

from prsm_tui.screen.wrapping import wrap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

TYPED = "you: "
_HELD = 500  # lines, at most
_CONTINUED = "  "  # begins the rows that a long line goes on in


class Page:
    """Owns what is written to a terminal; `columns` tells how wide it is, None if nobody knows."""

    def __init__(self, out: TextIO, columns: Callable[[], int | None]) -> None:
        self._out = out
        self._columns = columns
        self._draft: str | None = None  # what stands on the last line, None where it is empty
        self._held: list[str] = []

    def say(self, lines: Iterable[str]) -> None:
        """Write lines, once nobody types."""
        self._held += lines
        if self._draft is None or len(self._held) > _HELD:
            self.flush()

    def tell(self, level: str, text: str) -> None:
        """Write what became of an act; `level` is info, warning or error."""
        lead = "" if level == "info" else f"{level}: "
        self.say(f"prsm: {lead}{line}" for line in text.split("\n") if line.strip())

    def typed(self, draft: str, key: str) -> None:
        """Show a key that was added to a draft, which now is this."""
        if self._draft is None:
            self._write(f"{TYPED}{_shown(draft)}")
        else:
            self._write(_shown(key))
        self._draft = draft

    def erased(self, draft: str, erased: str) -> None:
        """Take signs off the end of the draft, which now is this."""
        if not draft or "\n" in erased or self._draft is None:
            self.end_line()
            if draft:
                self.typed(draft, draft)
            return
        width = cell_len(erased)
        self._write("\b" * width + " " * width + "\b" * width)
        self._draft = draft

    def end_line(self) -> None:
        """End the line that was typed, and write what was held."""
        if self._draft is not None:
            self._write("\n")
            self._draft = None
        self.flush()

    def flush(self) -> None:
        """Write what was held, on lines of its own."""
        if not self._held:
            return
        lead = "" if self._draft is None else "\n"
        self._draft = None  # it is written again with the next key
        held, self._held = self._held, []
        self._write(lead + "".join(f"{row}\n" for line in held for row in self._rows(line)))

    def _rows(self, line: str) -> Iterable[str]:
        columns = self._columns()
        if columns is None or columns <= len(_CONTINUED) + 2:
            yield line
            return
        first, *rest = wrap(line, columns - len(_CONTINUED) - 1)
        yield first
        yield from (f"{_CONTINUED}{row}" for row in rest)

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()


def _shown(draft: str) -> str:
    return draft.replace("\n", f"\n{_CONTINUED}")
