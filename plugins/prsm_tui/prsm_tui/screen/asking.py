"""A question of the screen's own, about what a person has just begun: yes or no."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.containers import Vertical
from textual.markup import escape
from textual.screen import ModalScreen
from textual.widgets import Static

from prsm_tui.keys import SURE, Keymap

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult


class Sure(ModalScreen[bool]):
    """Asks; one key is yes, any other is no."""

    DEFAULT_CSS = """
    Sure { align: center middle; background: $background 0%; }
    Sure > Vertical { width: 70%; height: auto; border: solid $warning; padding: 0 1; }
    Sure Static { width: 100%; height: auto; }
    """

    def __init__(self, question: str, keymap: Keymap) -> None:
        super().__init__()
        self._keymap = keymap
        self._question = question
        self._is_clicked = False  # on yes, once

    def compose(self) -> ComposeResult:
        """Show the question."""
        self._answers = Static(self._links(f"{self._keymap.shown('sure.yes')} yes"))
        with Vertical():
            yield Static(self._question, markup=False)
            yield self._answers

    def on_key(self, event: events.Key) -> None:
        """Take the answer."""
        event.stop()
        _ = self.dismiss(self._keymap.means(SURE, event.key) == "sure.yes")

    def action_yes(self) -> None:
        """Take the second click for a yes: the first may be one that brought the window back."""
        if self._is_clicked:
            _ = self.dismiss(True)
            return
        self._is_clicked = True
        self._answers.update(self._links("click once more: yes"))

    def action_no(self) -> None:
        """Take a click for a no."""
        _ = self.dismiss(False)

    @staticmethod
    def _links(yes: str) -> str:
        return f"[@click=screen.yes]{escape(yes)}[/] · [@click=screen.no]any other key: no[/]"
