"""How a terminal is asked to tell its person something while its window is not in front."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from textual.driver import Driver

    from prsm_tui.model.session import Session

BELL = "\x07"
_END = "\x1b\\"
_BY_PROGRAM = frozenset({"iterm.app", "wezterm", "ghostty", "windows_terminal"})


def notification(text: str, environ: Mapping[str, str]) -> str:
    """Return what makes a terminal ring, and show a line where it is known how it does that.

    Those that know several ways would show the line several times, so it is told in one.
    """
    said = "".join(letter for letter in text if letter.isprintable()).replace(";", ",")
    told = _sequence(said, environ)
    if told and environ.get("TMUX"):  # tmux passes on what is wrapped so, where it is let
        told = f"\x1bPtmux;{told.replace(chr(27), chr(27) * 2)}{_END}"
    return BELL + told


def _sequence(said: str, environ: Mapping[str, str]) -> str:
    term, program = environ.get("TERM", ""), environ.get("TERM_PROGRAM", "").lower()
    if "KITTY_WINDOW_ID" in environ or "kitty" in term:
        return f"\x1b]99;;{said}{_END}"
    if program in _BY_PROGRAM or "WT_SESSION" in environ:
        return f"\x1b]9;{said}{_END}"
    if "VTE_VERSION" in environ or term.startswith(("rxvt", "foot")):
        return f"\x1b]777;notify;prsm;{said}{_END}"
    return ""


class Attention:
    """Owns what the terminal was told, and what was so when it was."""

    def __init__(self) -> None:
        self.waiting = 0  # how much waited, in all sessions
        self._own = 0  # … in the one that is shown
        self._was_open = False  # its run
        self._title = ""

    def forget(self) -> None:
        """Begin anew, with another session."""
        self._own, self._was_open = 0, False

    def news(self, session: Session, waiting: int) -> str:
        """Return what a person who looks elsewhere should know, blank for nothing new."""
        run, own = session.run, len(session.requests)
        was_open, self._was_open = self._was_open, run is not None and run.is_open
        before, self._own = self._own, own
        if own > before:
            newest = list(session.requests.values())[-1]
            return f"{waiting} need you: {session.name_of(newest.agent)}: {newest.head[:80]}"
        if waiting > self.waiting:
            return f"{waiting} need you"
        if was_open and not self._was_open and run is not None:
            return f"the run is {run.status}"
        return ""

    def tell(self, driver: Driver, title: str, why: str) -> None:
        """Give the terminal its title; ring, and tell it, where there is a reason."""
        if title != self._title and not driver.is_headless:
            driver.write(f"\x1b]0;{title}\x07")
        self._title = title
        if why:
            driver.write(notification(why, os.environ))
