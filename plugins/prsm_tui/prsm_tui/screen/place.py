"""A screen beside the panes: it shows the model, says what became of things, and Esc leaves it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.markup import escape
from textual.screen import Screen
from textual.widgets import Static

from prsm_tui.keys import EVERYWHERE
from prsm_tui.screen.messages import SteppedBack

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events
    from textual.app import ComposeResult
    from textual.widget import Widget

    from prsm_tui.keys import Keymap
    from prsm_tui.model.session import Session
    from prsm_tui.screen.prompt import Prompt


class Place(Screen[None]):
    """What all of them have: a line of keys, a line for what is said, and the way back."""

    named = ""  # by which it is gone to
    KEYS: ClassVar[Sequence[str]] = ()  # the places whose keys its help shows
    # What is needed most: the name of its key, what it does in a word, and its action.
    HINTS: ClassVar[Sequence[tuple[str, str, str]]] = ()
    DEFAULT_CSS = """
    Place { layout: vertical; }
    Place .title { height: 1; width: 100%; text-style: reverse; }
    Place .said { height: auto; max-height: 4; width: 100%; }
    Place .hint {
        height: 1; width: 100%; link-style: none; link-color: $text-muted;
        link-style-hover: reverse; link-color-hover: $text; link-background-hover: transparent;
    }
    Place Input, Place Input:focus { border: none; height: 1; padding: 0; }
    """

    def __init__(self, session: Session, keymap: Keymap) -> None:
        super().__init__()
        self.session = session
        self.keymap = keymap
        self.titled = Static(classes="title", markup=False)
        self.said = Static(classes="said", markup=False)
        links = (
            f"[@click={action}]{escape(f'{keymap.first(name)} {does}'.strip())}[/]"
            for name, does, action in self.HINTS
        )
        self.hint = Static(" · ".join(links), classes="hint")
        self.said.display = False
        # What a screen shows above and below what is said; set before it is mounted.
        self.body: Sequence[Widget] = ()
        self.foot: Sequence[Widget] = ()
        self.is_built = False  # its widgets are there

    def compose(self) -> ComposeResult:
        yield self.titled
        yield from self.body
        yield self.said
        yield from self.foot
        yield self.hint

    @property
    def prompt(self) -> Prompt | None:
        """Where a person types on it what goes to an agent; None: nowhere."""
        return None

    def sync(self, now: float) -> None:
        """Follow the model; `now` in Unix seconds."""

    def say(self, text: str) -> None:
        """Say what became of something; blank: nothing is to be said any more."""
        self.said.update(text)
        self.said.display = bool(text)

    def action_leave(self) -> None:
        if not self.step_back():
            self.post_message(SteppedBack())

    def step_back(self) -> bool:
        """Go one step back within this screen; return whether there was one."""
        return False

    def on_key(self, event: events.Key) -> None:
        """Leave, by one step."""
        places = (*self.KEYS, EVERYWHERE)
        means = next(filter(None, (self.keymap.means(one, event.key) for one in places)), "")
        if means.endswith(".back"):
            event.stop()
            self.action_leave()
