"""A filter while it is typed: whose letters are whose."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_tui.keys import FILTER

if TYPE_CHECKING:
    from textual import events

    from prsm_tui.keys import Keymap


class Filter:
    """Owns the text of a filter, and whether letters are of it."""

    def __init__(self) -> None:
        self.text = ""
        self.is_typed = False

    def __bool__(self) -> bool:
        return self.is_typed or bool(self.text)

    def begin(self) -> None:
        """Take letters for another filter from now on."""
        self.text, self.is_typed = "", True

    def keep(self) -> None:
        """Take no more letters."""
        self.is_typed = False

    def drop(self) -> None:
        """Show all again."""
        self.text, self.is_typed = "", False

    def take(self, event: events.Key, keymap: Keymap) -> bool:
        """Take a key while it is typed; return whether the key was for the filter."""
        if not self.is_typed:
            return False
        means = keymap.means(FILTER, event.key)
        if means == "filter.keep":
            self.keep()
        elif means == "filter.drop":
            self.drop()
        elif event.key == "backspace":
            self.text = self.text[:-1]
        elif event.is_printable and event.character:
            self.text += event.character
        else:
            return False
        event.stop()
        event.prevent_default()
        return True
