"""A question of the screen's own, about what a person has just begun: yes or no."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

from prsm_tui.keys import SURE, Keymap

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult


class Sure(ModalScreen[bool]):
    """Asks; one key is yes, any other is no."""

    DEFAULT_CSS = """
    Sure { align: center middle; }
    Sure > Vertical { width: 70%; height: auto; border: solid $warning; padding: 0 1; }
    Sure Static { width: 100%; height: auto; }
    """

    def __init__(self, question: str, keymap: Keymap) -> None:
        super().__init__()
        self._keymap = keymap
        self._question = question

    def compose(self) -> ComposeResult:
        """Show the question."""
        with Vertical():
            yield Static(self._question, markup=False)
            yes = self._keymap.shown("sure.yes")
            yield Static(f"[{yes}] yes, any other key: no", markup=False)

    def on_key(self, event: events.Key) -> None:
        """Take the answer."""
        event.stop()
        _ = self.dismiss(self._keymap.means(SURE, event.key) == "sure.yes")
