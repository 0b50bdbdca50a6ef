"""Where another session begins: a folder to work in, and the task. What is typed stays."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.screen import Screen
from textual.widgets import Input, Static

from prsm_tui.keys import NEW, Keymap
from prsm_tui.screen.keys import binding
from prsm_tui.screen.messages import (
    DeliveryTurned,
    EditorWanted,
    PromptSubmitted,
    SteppedBack,
    TaskGiven,
    WordWanted,
)
from prsm_tui.screen.pasting import PastesText
from prsm_tui.screen.prompt import Prompt

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult
    from textual.binding import BindingType


class FolderLine(PastesText, Input):
    """The folder that a session works in."""


class NewSession(Screen[None]):
    """Posts the task with its folder; it is closed once that has begun."""

    AUTO_FOCUS = ""  # it is set once, before the first key: not later, over what a person chose
    BINDINGS: ClassVar[list[BindingType]] = [
        # Seen to before the next key is passed on, which is for the other of the two.
        binding("app.next", "turn", has_priority=True),
        binding("app.previous", "turn", has_priority=True),
    ]
    DEFAULT_CSS = """
    NewSession { layout: vertical; }
    NewSession #head { height: 1; text-style: reverse; }
    NewSession .label { height: 1; text-style: bold; }
    NewSession #folder { border: none; height: 1; padding: 0; }
    NewSession #prompt { height: 1fr; border: none; padding: 0; }
    NewSession #said { height: auto; max-height: 3; }
    NewSession #how { height: 1; }
    """

    def __init__(self, workspace: str, task: str, keymap: Keymap) -> None:
        super().__init__()
        self._keymap = keymap
        self._folder = FolderLine(workspace, id="folder")
        self.prompt = Prompt(keymap)
        self._typed = task
        self._said = Static(id="said", markup=False)

    def compose(self) -> ComposeResult:
        """Show the folder above the task."""
        shown = self._keymap.shown
        yield Static("a new session", id="head", markup=False)
        yield Static(f"folder ({shown('app.previous')})", classes="label", markup=False)
        yield self._folder
        yield Static("task", classes="label", markup=False)
        yield self.prompt
        yield self._said
        how = (
            f"{shown('prompt.send')} begins it, in a process of its own; {shown('new.back')}: back"
        )
        yield Static(how, id="how", markup=False)

    def on_mount(self) -> None:
        """Go on with what was typed before."""
        self._folder.cursor_blink = False
        self.set_focus(self.prompt)
        self.prompt.give_back(None, self._typed)

    @property
    def typed(self) -> tuple[str, str]:
        """The folder and the task as they are now."""
        return self._folder.value, self.prompt.text

    def say(self, text: str) -> None:
        """Say what became of something."""
        self._said.update(text)

    def give_back(self, task: str) -> None:
        """Put a task back that did not begin."""
        self.prompt.give_back(None, task)

    def on_prompt_submitted(self, message: PromptSubmitted) -> None:
        """Give the task, once the folder has read all that was typed to it before."""
        message.stop()
        self.say("it begins …")
        _ = self._folder.call_later(self._give, message.text)

    def _give(self, task: str) -> None:
        self.post_message(TaskGiven(self._folder.value.strip(), task))

    def action_turn(self) -> None:
        """Go from the one to the other."""
        self.set_focus(self.prompt if self.focused is self._folder else self._folder)

    def on_word_wanted(self, message: WordWanted) -> None:
        """Nothing completes a word before there is a session."""
        message.stop()

    def on_delivery_turned(self, message: DeliveryTurned) -> None:
        """A task is delivered in one way."""
        message.stop()

    def on_editor_wanted(self, message: EditorWanted) -> None:
        """Say where an editor can be had: what opens it belongs to a session."""
        message.stop()
        self.say("your editor opens where you type in a session; this task is typed here")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Go on to the task."""
        event.stop()
        self.set_focus(self.prompt)

    def on_key(self, event: events.Key) -> None:
        """Go back."""
        if self._keymap.means(NEW, event.key) == "new.back":
            event.stop()
            self.post_message(SteppedBack())
