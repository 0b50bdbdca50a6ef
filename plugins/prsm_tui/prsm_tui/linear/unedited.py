"""What a screen does and a line does not: complete words, lend the terminal, go to a call."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from prsm_tui.editor import Ends

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager


class Unedited:
    """Hears of these acts, and has nothing to do."""

    def completed(self, text: str, found: Sequence[str]) -> None:
        """Nothing is completed here."""

    def edited(self, agent: str | None, text: str) -> None:
        """Nothing is edited here."""

    def lent(self) -> AbstractContextManager[Ends]:
        """Nothing is edited here."""
        return nullcontext(Ends())

    def found(self, agent: str, call: str | None) -> None:
        """No call is looked for here."""
