"""Where a comment on lines of a change is typed; to whom it goes, and how, stands above it.

What is typed is never lost: whoever steps back keeps it, to be sent later with others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.containers import Vertical
from textual.message import Message
from textual.widgets import Static

from prsm_tui.model.comments import Comment
from prsm_tui.screen.prompt import Prompt

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from prsm_tui.keys import Keymap
    from prsm_tui.model.patches import PatchLine
    from prsm_tui.screen.messages import PaneLeft, PromptSubmitted, SteppedBack


class CommentEnded(Message):
    """A comment was typed; `sends`: to be sent now, else it is kept."""

    def __init__(self, comment: Comment, *, sends: bool) -> None:
        super().__init__()
        self.comment, self.sends = comment, sends


class CommentBox(Vertical):
    """Takes one comment at a time; it is not seen while there is none."""

    DEFAULT_CSS = """
    CommentBox { height: auto; width: 100%; }
    CommentBox Static { height: auto; max-height: 2; width: 100%; text-style: bold; }
    CommentBox #prompt { height: auto; min-height: 1; max-height: 8; border: none; padding: 0; }
    """

    def __init__(self, keymap: Keymap) -> None:
        super().__init__()
        self.prompt = Prompt(keymap)
        send, back = keymap.shown("prompt.send"), keymap.first("prompt.leave")
        self.prompt.placeholder = (
            f"{send} sends it, {keymap.first('prompt.new_line')}: a new line, "
            f"{back} keeps it to be sent with others"
        )
        self._label = Static(markup=False)
        self._on: tuple[str, tuple[PatchLine, ...]] | None = None  # what is commented on

    def compose(self) -> ComposeResult:
        """Put the text below the line that says to whom it goes."""
        yield self._label
        yield self.prompt

    def on_mount(self) -> None:
        """Be hidden."""
        self.display = False

    @property
    def is_open(self) -> bool:
        """Whether a comment is typed."""
        return self._on is not None

    @property
    def change(self) -> str | None:
        """The change that is commented on."""
        return None if self._on is None else self._on[0]

    @property
    def lines(self) -> tuple[PatchLine, ...]:
        """The lines that are commented on."""
        return () if self._on is None else self._on[1]

    @property
    def typed(self) -> Comment | None:
        """What is typed so far, None where that is nothing."""
        text = self.prompt.text.strip()
        return Comment(*self._on, text) if self._on is not None and text else None

    def begin(self, comment: Comment) -> None:
        """Let a comment be typed, or typed on."""
        self._on = comment.change, comment.lines
        self.display = True
        self.prompt.take_over(None, comment.text)
        self.prompt.focus()

    def put_on(self, lines: tuple[PatchLine, ...], kept: Comment | None) -> None:
        """Have what is typed be on these lines, below what is `kept` there already."""
        if self._on is None:
            return
        self._on = self._on[0], lines
        if kept is not None:
            texts = kept.text, self.prompt.text
            self.prompt.take_over(None, "\n".join(text for text in texts if text.strip()))

    def tell(self, label: str) -> None:
        """Say to whom it goes, and how."""
        self._label.update(label)

    def end(self) -> None:
        """Keep what is typed, and be hidden."""
        self._give(self.prompt.text, sends=False)

    def on_prompt_submitted(self, message: PromptSubmitted) -> None:
        """Have it sent."""
        message.stop()
        self._give(message.text, sends=True)

    def on_stepped_back(self, message: SteppedBack) -> None:
        """Have it kept."""
        message.stop()
        self.end()

    def on_pane_left(self, message: PaneLeft) -> None:
        """There is no other pane to go to while a comment is typed."""
        message.stop()

    def _give(self, text: str, *, sends: bool) -> None:
        on, self._on = self._on, None
        if on is None:
            return
        self.display = False
        self.prompt.take_over(None, "")
        self.post_message(CommentEnded(Comment(*on, text.strip()), sends=sends))
