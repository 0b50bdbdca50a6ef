"""What a program has decided in its turn, kept on disk: by it the turn goes on after a crash.

The program is run again from its beginning, and each thing that it does has a key. What it decided
is read here instead of being decided anew; a call is made again by its key as the call's id, and
the engine gives the answer it had. So nothing is done twice.

The file's first line is what the turn was begun with, each further one what was decided since. A
line that was cut off by the end of the process was never noted: that is decided anew.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from prsm_core import ProviderNotAvailableError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

T = TypeVar("T")


class _Kept(msgspec.Struct):
    intent: str | None = None
    number: int = 0  # of the turn: calls of two turns never have one id
    known: dict[str, Any] = msgspec.field(default_factory=dict)


class Notes:
    """Owns the file of one agent; its turns come one after the other."""

    def __init__(self, path: Path, redact: Callable[[Any], Any]) -> None:
        self._path = path
        self._redact = redact
        self._kept = _Kept()

    @property
    def intent(self) -> str:
        """What the turn was begun with."""
        return self._kept.intent or ""

    @property
    def number(self) -> int:
        """The turn's number, from 1."""
        return self._kept.number

    def read(self) -> None:
        """Take up what was kept; raise ProviderNotAvailableError where it is lost."""
        try:
            self._kept, is_cut_off = _decoded(self._path.read_bytes())
            if is_cut_off:
                self._write()
        except (OSError, msgspec.DecodeError) as error:
            raise ProviderNotAvailableError(
                f"regions: the notes of this agent cannot be read: {error}",
                hint="Look at what its children have done, and start the rest as another run.",
                code="resume_failed",
            ) from error

    def begin(self, intent: str) -> None:
        """Begin a turn."""
        self._kept = _Kept(intent=intent, number=self._kept.number + 1)
        self._write()

    async def once(self, key: str, make: Callable[[], Awaitable[T]]) -> T:
        """Return what `make` gave, as JSON values, the first time in this turn."""
        if key in self._kept.known:
            return self._kept.known[key]  # type: ignore[no-any-return]
        made = await make()
        self._kept.known[key] = made
        with self._path.open("r+b") as file:  # it is there since the turn began
            file.seek(0, os.SEEK_END)
            file.write(b"\n" + self._line({key: made}))
        return made

    def _write(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        beside = self._path.with_suffix(".new")
        beside.write_bytes(self._line(self._kept))
        beside.replace(self._path)

    def _line(self, said: object) -> bytes:
        return msgspec.json.encode(self._redact(msgspec.to_builtins(said)))


def _decoded(text: bytes) -> tuple[_Kept, bool]:
    """Return what a file holds, and whether its last line was cut off."""
    first, *lines = text.split(b"\n")
    kept = msgspec.json.decode(first, type=_Kept)
    for place, line in enumerate(lines, 1):
        try:
            kept.known |= msgspec.json.decode(line, type=dict[str, Any])
        except msgspec.DecodeError:
            if place < len(lines):
                raise
            return kept, True
    return kept, False
