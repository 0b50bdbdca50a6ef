"""The person at this terminal: what stands on their screen, what they answer, what they say."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Protocol, TextIO, cast

from prsm_core.builtin.asking import Answering, Desk
from prsm_core.builtin.lines import LineReader
from prsm_core.builtin.prompting import INVITE, Prompter, Prompting
from prsm_core.builtin.render import Ink, Renderer
from prsm_core.builtin.screen import LineScreen, Screen, can_move
from prsm_core.kit.text import first_line

if TYPE_CHECKING:
    from prsm_core.builtin.keyboard import Keyboard, Typed
    from prsm_core.domain.events import Event


class Reachable(Answering, Prompting, Protocol):
    """What takes a person's answers and prompts; every AppHandle does."""


class Person:
    """Owns the terminal for as long as a run is shown on it.

    Args:
        app: Where answers and prompts go.
        err: What is shown, is shown here.
        stdin: The descriptor that is read. Typed lines are read from a terminal alone; a pipe is
            read for answers.
        is_asked: Whether requests are put to the person, or only shown.
        leaves: Whether the end of input is the person's leave, rather than a refusal.
    """

    def __init__(
        self,
        app: Reachable,
        *,
        err: TextIO,
        stdin: int | None,
        is_asked: bool = True,
        leaves: bool = False,
    ) -> None:
        is_plain = not err.isatty() or "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
        self.renderer = Renderer(Ink(not is_plain))
        types = stdin is not None and os.isatty(stdin)
        self._stderr = sys.stderr
        self.screen: Screen = LineScreen(err, is_echoed=err.isatty())
        view: Typed | None = None
        if can_move(err):
            from prsm_core.builtin.live_screen import AboveScreen, LiveScreen

            self.screen = view = LiveScreen(err, invite=INVITE if types else "")
            if sys.stderr is err:
                sys.stderr = cast("TextIO", AboveScreen(view, err))
        self.prompter = Prompter(app, self.screen)
        self.keyboard: Keyboard | None = None
        if stdin is not None and types:
            from prsm_core.builtin.keyboard import Keyboard

            self.keyboard = Keyboard(
                stdin,
                on_prompt=self.prompter.take,
                tell=lambda text: self.screen.print_lines([text]),
                view=view,
                leaves=leaves,
            )
        reader = self.keyboard or LineReader(stdin)
        on_prompt = self.prompter.take if self.keyboard is not None else None
        self._desk = Desk(app, reader, self.screen, self.renderer.lines, on_prompt)
        self._is_asked = is_asked

    def show(self, event: Event) -> bool:
        """Show an event that is committed; return whether that printed anything."""
        is_own = self.prompter.note(event)  # which is shown as what was typed, with its fate
        if is_own or (self._is_asked and self._desk.note(event)):
            return False
        lines = self.renderer.lines(event)
        self.screen.print_lines(lines)
        return bool(lines)

    def learn(self, event: Event) -> None:
        """Remember what an event that is past says of names and calls."""
        self.prompter.note(event)
        self.renderer.lines(event)

    def refresh(self) -> None:
        """Follow the terminal: call it every second."""
        if self.keyboard is not None:
            self.screen.step_back(not self.keyboard.refresh())

    async def serve(self) -> None:
        """Read and answer until cancelled."""
        async with asyncio.TaskGroup() as group:
            if self.keyboard is not None:
                _ = group.create_task(self.keyboard.serve(), name="read the terminal")
                _ = group.create_task(self.prompter.serve(), name="send prompts")
            if self._is_asked:
                _ = group.create_task(self._desk.serve(), name="ask the user")

    def close(self) -> None:
        """Give the terminal back; what was typed and reached nobody is told."""
        self.screen.close()
        sys.stderr = self._stderr
        left = list(self.prompter.unsent())
        if self.keyboard is not None:
            left += [self.keyboard.draft] if self.keyboard.draft.strip() else []
            self.keyboard.close()
        self.screen.print_lines([f"not sent: {first_line(line)}" for line in left])
