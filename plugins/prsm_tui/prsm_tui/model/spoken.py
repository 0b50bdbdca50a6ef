"""A text that comes in pieces, each of which says where it belongs."""

from __future__ import annotations

import re
from dataclasses import dataclass

from prsm_core.kit import escape_prose

LOST = "…"  # stands for what a reader that was too slow has not got
_CUT = re.compile(r"(?:\r|[\ufe0e\ufe0f]?[\u200c\u200d]?)\Z")
_CONTEXT = 2  # characters that a joiner belongs to
MOST = 200_000  # characters of one text that are kept to be shown


@dataclass(slots=True)
class Spoken:
    """What has been said so far: harmless text, and how many characters were told of in all."""

    text: str = ""
    at: int = 0
    # What may be cut from what follows it: half of a line end, a joiner of two pictures.
    _held: str = ""
    # The last that was shown, as it was told.
    _before: str = ""

    def take(self, at: int | None, piece: str) -> bool:
        """Add what of a piece is beyond the text; return whether there was any."""
        begin = self.at if at is None else at
        fresh = piece[max(0, self.at - begin) :]
        if not fresh:
            return False
        if begin > self.at:
            self.text, self._held = self.text + escape_prose(self._held) + LOST, ""
            self._before = ""
        self.at = begin + len(piece)
        said = self._held + fresh
        cut = _CUT.search(said)
        self._held = cut[0] if cut else ""
        said = self._before + said.removesuffix(self._held)
        if len(self.text) < MOST:
            self.text += escape_prose(said).removeprefix(escape_prose(self._before))
        self._before = said[-_CONTEXT:]
        return True


def shown(text: object) -> str:
    """Return any value as text that can be drawn, cut where nobody would read on."""
    whole = "" if text is None else str(text)
    if len(whole) <= MOST:
        return escape_prose(whole)
    left = len(whole) - MOST
    return f"{escape_prose(whole[:MOST])}{LOST}\n[{left:,} more characters: prsm history]"
