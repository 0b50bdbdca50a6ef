"""The keys of a place, and the commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.style import Style
from textual.screen import Screen
from textual.widgets import Static

from prsm_tui.commands import COMMANDS
from prsm_tui.keys import EVERYWHERE, HELP, Keymap, table
from prsm_tui.screen.lines import Lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events
    from textual.app import ComposeResult

_PLAIN = Style()


class Help(Screen[None]):
    """Shows them, as they are set, until a person goes back."""

    DEFAULT_CSS = """
    Help #help { height: 1fr; }
    Help Static { height: 1; text-style: reverse; }
    """

    def __init__(self, places: Sequence[str], keymap: Keymap) -> None:
        super().__init__()
        self._keymap = keymap
        lines = [*table(places, keymap), "", *table([EVERYWHERE], keymap)]
        lines += ["", "commands, where you type:"]
        width = max(len(command.usage) for command in COMMANDS.values())
        lines += [f"  {one.usage:<{width}}  {one.does}" for one in COMMANDS.values()]
        self._lines, self._shown = lines, Lines(id="help")

    def compose(self) -> ComposeResult:
        yield self._shown
        back = self._keymap.shown("help.back")
        yield Static(f"keys and commands · {back}: back", id="said", markup=False)

    def on_mount(self) -> None:
        self._shown.provide(len(self._lines), lambda index, _width: (self._lines[index], _PLAIN))
        self._shown.focus()

    def say(self, text: str) -> None:
        """Say what became of something."""
        self.query_one("#said", Static).update(text)

    def on_key(self, event: events.Key) -> None:
        """Leave, or scroll."""
        match self._keymap.means(HELP, event.key):
            case "help.back":
                event.stop()
                _ = self.dismiss()
            case "help.down":
                self._shown.scroll_relative(y=1, animate=False)
            case "help.up":
                self._shown.scroll_relative(y=-1, animate=False)
