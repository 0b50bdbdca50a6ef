"""A question of the screen's own that is answered by one line: a name, a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from prsm_tui.keys import NEEDS_YOU, Keymap
from prsm_tui.screen.needs_you import AnswerLine

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult


class LineAsked(ModalScreen[str | None]):
    """Asks for a line; None where the person goes back."""

    DEFAULT_CSS = """
    LineAsked { align: center middle; background: $background 0%; }
    LineAsked > Vertical { width: 70%; height: auto; border: solid $foreground; padding: 0 1; }
    LineAsked Static { width: 100%; height: auto; }
    LineAsked #line, LineAsked #line:focus { border: none; height: 1; padding: 0; }
    """

    def __init__(self, question: str, value: str, keymap: Keymap) -> None:
        super().__init__()
        self._question = question
        self._keymap = keymap
        self._line = AnswerLine(keymap, value=value, id="line", select_on_focus=False)

    def compose(self) -> ComposeResult:
        """Show the question and the line."""
        shown = self._keymap.shown
        with Vertical():
            yield Static(self._question, markup=False)
            yield self._line
            how = f"{shown('requests.send')}: take it, {shown('requests.back')}: leave it as it is"
            yield Static(how, markup=False)

    def on_mount(self) -> None:
        """Take letters at once."""
        self._line.cursor_blink = False
        self._line.focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Give the line."""
        event.stop()
        _ = self.dismiss(event.value)

    def on_key(self, event: events.Key) -> None:
        """Go back."""
        if self._keymap.means(NEEDS_YOU, event.key) == "requests.back":
            event.stop()
            _ = self.dismiss(None)
