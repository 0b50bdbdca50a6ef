"""What the parts of the linear mode use of the person: to say something, to ask, and to act."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from prsm_tui.acts import Acts
    from prsm_tui.model.session import Session


_YES = frozenset({"1", "y", "yes"})


class Desk(Protocol):
    """Where a person is."""

    session: Session
    acts: Acts | None
    delivery: str

    def say(self, lines: Iterable[str]) -> None:
        """Write lines."""

    def told(self, level: str, text: str) -> None:
        """Say what became of an act."""

    def ask(self, what: str, do: Callable[[], None]) -> None:
        """Do something once the person has said yes."""


def numbered(typed: str, known: Sequence[str]) -> Sequence[str] | None:
    """Return the ids that numbers mean, of those that are known; None where one is none."""
    words = re.split(r"[,\s]+", typed.strip())
    if not all(word.isascii() and word.isdigit() and len(word) < 7 for word in words):
        return None
    places = [int(word) for word in words]
    if not all(1 <= place <= len(known) for place in places):
        return None
    return list(dict.fromkeys(known[place - 1] for place in places))


def is_yes(typed: str) -> bool:
    """Return whether a question is answered by yes; anything else is a no."""
    return typed.strip().lower() in _YES
