"""What a terminal pastes, before a widget has it: who wrote the page may have written more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.kit import escape_prose

if TYPE_CHECKING:
    from textual import events


class PastesText:
    """Stands before a widget of Textual: what is pasted into it is text that can be drawn."""

    def on_paste(self, event: events.Paste) -> None:
        """Write out signs that act; Textual then calls the widget's own handler."""
        event.text = escape_prose(event.text)
