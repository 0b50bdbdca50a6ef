"""How a terminal is asked to tell its person something while its window is not in front."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

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
