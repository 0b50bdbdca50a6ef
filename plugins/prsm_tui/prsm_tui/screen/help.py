"""The keys of a place, and the commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.style import Style
from textual.screen import Screen
from textual.widgets import Static

from prsm_tui.commands import COMMANDS
from prsm_tui.screen.keys import EVERYWHERE, table
from prsm_tui.screen.lines import Lines

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult

_PLAIN = Style()


class Help(Screen[None]):
    """Shows them until Esc, `q`, `?` or F1."""

    DEFAULT_CSS = """
    Help #help { height: 1fr; }
    Help Static { height: 1; text-style: reverse; }
    """

    def __init__(self, *places: str) -> None:
        super().__init__()
        lines = [*table(places), "", *table([EVERYWHERE]), "", "commands, where you type:"]
        width = max(len(command.usage) for command in COMMANDS.values())
        lines += [f"  {one.usage:<{width}}  {one.does}" for one in COMMANDS.values()]
        self._lines = lines

    def compose(self) -> ComposeResult:
        """Show the lines."""
        yield Lines(id="help")
        yield Static("keys and commands · Esc goes back", id="said", markup=False)

    def on_mount(self) -> None:
        """Fill them in."""
        shown = self.query_one("#help", Lines)
        shown.provide(len(self._lines), lambda index, _width: (self._lines[index], _PLAIN))
        shown.focus()

    def say(self, text: str) -> None:
        """Say what became of something."""
        self.query_one("#said", Static).update(text)

    def on_key(self, event: events.Key) -> None:
        """Leave, or scroll."""
        if event.key in {"escape", "q", "question_mark", "f1"}:
            event.stop()
            _ = self.dismiss()
        elif event.key in {"j", "k"}:
            step = 1 if event.key == "j" else -1
            self.query_one("#help", Lines).scroll_relative(y=step, animate=False)
