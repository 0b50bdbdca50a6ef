"""A text that comes in pieces, each of which says where it belongs."""

from __future__ import annotations

from dataclasses import dataclass

from prsm_core.kit import escape_prose

LOST = "…"  # stands for what a reader that was too slow has not got
MOST = 200_000  # characters of one text that are kept to be shown


@dataclass(slots=True)
class Spoken:
    """What has been said so far: harmless text, and how many characters were told of in all."""

    text: str = ""
    at: int = 0
    _held: str = ""  # a line end may be cut in two

    def take(self, at: int | None, piece: str) -> bool:
        """Add what of a piece is beyond the text; return whether there was any."""
        begin = self.at if at is None else at
        fresh = piece[max(0, self.at - begin) :]
        if not fresh:
            return False
        if begin > self.at:
            self.text, self._held = self.text + escape_prose(self._held) + LOST, ""
        self.at = begin + len(piece)
        said = self._held + fresh
        self._held = "\r" if said.endswith("\r") else ""
        if len(self.text) < MOST:
            self.text += escape_prose(said.removesuffix(self._held))
        return True


def shown(text: object) -> str:
    """Return any value as text that can be drawn, cut where nobody would read on."""
    whole = "" if text is None else str(text)
    if len(whole) <= MOST:
        return escape_prose(whole)
    left = len(whole) - MOST
    return f"{escape_prose(whole[:MOST])}{LOST}\n[{left:,} more characters: prsm history]"
