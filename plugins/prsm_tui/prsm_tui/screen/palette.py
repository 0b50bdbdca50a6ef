"""All commands, found by a few letters of what they are called or do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.style import Style
from textual.message import Message

from prsm_tui.commands import COMMANDS, Command
from prsm_tui.keys import PALETTE
from prsm_tui.screen.keys import bindings
from prsm_tui.screen.lines import Line, Lines
from prsm_tui.screen.needs_you import AnswerLine
from prsm_tui.screen.place import Place

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events
    from textual.widgets import Input

    from prsm_tui.keys import Keymap
    from prsm_tui.model.session import Session

_PLAIN = Style()


@dataclass
class CommandPicked(Message):
    """A command was picked; one that needs words is to be typed on."""

    name: str
    needs_words: bool


class Palette(Place):
    """Shows the commands that fit what is typed."""

    BINDINGS = bindings(PALETTE)
    named = "palette"
    KEYS = (PALETTE,)
    HINTS = (("palette.pick", "does it", "screen.pick"), ("palette.back", "back", "screen.leave"))
    DEFAULT_CSS = """
    Palette #commands { height: 1fr; }
    """

    def __init__(self, session: Session, keymap: Keymap) -> None:
        super().__init__(session, keymap)
        self._found: Sequence[str] = tuple(COMMANDS)
        self._typed = AnswerLine(
            keymap, "palette.pick", placeholder="a few letters of a command", id="typed"
        )
        self._shown = Lines(id="commands")
        self.body = self._typed, self._shown

    def on_mount(self) -> None:
        self.titled.update(" commands")
        self._shown.can_focus = False
        self._typed.cursor_blink = False
        self._typed.focus()
        self._fill()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Find what fits."""
        self._found = found(event.value)
        self._fill()

    def on_input_submitted(self, _: Input.Submitted) -> None:
        """Do what the cursor is on."""
        self.action_pick()

    def action_move(self, step: int) -> None:
        if self._found:
            place = min(len(self._found) - 1, max(0, self._shown.cursor + step))
            self._shown.put_cursor(place)

    def action_pick(self) -> None:
        if self._found:
            name = self._found[self._shown.cursor]
            self.post_message(CommandPicked(name, needs_words=needs_words(COMMANDS[name])))

    def on_click(self, event: events.Click) -> None:
        """Do what was clicked."""
        place = round(self._shown.scroll_y) + event.y
        if event.widget is self._shown and place < len(self._found):
            self._shown.put_cursor(place)
            self.action_pick()

    def _fill(self) -> None:
        width = max(len(command.usage) for command in COMMANDS.values())

        def line(index: int, _width: int) -> Line:
            command = COMMANDS[self._found[index]]
            return f"  {command.usage:<{width}}  {command.does}", _PLAIN

        self._shown.provide(len(self._found), line)
        self._shown.put_cursor(0 if self._found else -1)


def found(typed: str) -> Sequence[str]:
    """Return the commands that fit: one called so, those that begin so, those that tell of it."""
    wanted = typed.strip().removeprefix("/").lower()
    begins = [name for name in COMMANDS if name.startswith(wanted)]
    begins.sort(key=lambda name: name != wanted)
    tells = [
        name
        for name, command in COMMANDS.items()
        if name not in begins and wanted in f"{command.usage} {command.does}".lower()
    ]
    return [*begins, *tells]


def needs_words(command: Command) -> bool:
    """Return whether a command is nothing without words behind it."""
    _, _, words = command.usage.partition(" ")
    return bool(words) and not words.startswith("[")
