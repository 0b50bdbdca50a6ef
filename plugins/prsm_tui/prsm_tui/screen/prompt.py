"""Where a person types: one text of several lines, what was typed before, what a word becomes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.widgets import TextArea

from prsm_core.kit import escape_prose
from prsm_tui.keys import EVERYWHERE, PROMPT, Keymap
from prsm_tui.screen import messages

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from textual import events

_REMEMBERED = 200  # texts


class PastesText:
    """Stands before a widget of Textual: what is pasted into it can be drawn."""

    def on_paste(self, event: events.Paste) -> None:
        """Write out signs that act; Textual then calls the widget's own handler."""
        event.text = escape_prose(event.text)


class Prompt(PastesText, TextArea):
    """The text; each agent has a draft of its own."""

    def __init__(self, keymap: Keymap) -> None:
        super().__init__(id="prompt", compact=True, highlight_cursor_line=False)
        self._keymap = keymap
        self.cursor_blink = False
        self._drafts: dict[str | None, str] = {}
        self._of: str | None = None
        self._sent: list[str] = []
        self._place = 0  # in what was sent; its end is what is typed now
        self._now = ""

    def turn_to(self, agent: str | None) -> None:
        """Keep the draft for the agent before, and take up that of another."""
        if agent == self._of:
            return
        self._drafts[self._of] = self.text
        self._of = agent
        self._set(self._drafts.pop(agent, ""))
        self._place = len(self._sent)

    def give_back(self, agent: str | None, text: str) -> None:
        """Put a text that reached nobody back to where it was typed, behind what is there now."""
        if agent != self._of:
            self._drafts[agent] = "\n".join(filter(None, [self._drafts.get(agent, ""), text]))
            return
        self._set("\n".join(filter(None, [text, self.text])))

    def take_over(self, agent: str | None, text: str) -> None:
        """Let what was typed for an agent be another text."""
        if agent == self._of:
            self._set(text)
        else:
            self._drafts[agent] = text

    def complete(self, found: Sequence[str]) -> None:
        """Let the last word become the one that was found, or what all have in common."""
        if not found:
            return
        word = self._word()
        common = found[0] if len(found) == 1 else _common(found)
        if len(common) > len(word):
            whole = common + (" " if len(found) == 1 and not common.endswith("/") else "")
            self._set(self.text[: len(self.text) - len(word)] + whole)

    def drafts(self) -> Sequence[str]:
        """Return what was typed and not sent."""
        return [text for text in (*self._drafts.values(), self.text) if text.strip()]

    def kept(self) -> Mapping[str | None, str]:
        """Return what was typed and not sent, by whom it is for."""
        drafts = {**self._drafts, self._of: self.text}
        return {agent: text for agent, text in drafts.items() if text.strip()}

    def keep(self, drafts: Mapping[str | None, str]) -> None:
        """Take up what was typed before, as `kept` told it."""
        for agent, text in drafts.items():
            self.give_back(agent, text)

    def action_paste(self) -> None:
        """Put in what was cut here; no program can read the clipboard of its terminal."""
        if self.app.clipboard:
            super().action_paste()
        else:
            self.post_message(messages.NothingPasted())

    async def _on_key(self, event: events.Key) -> None:
        """See to the keys that a text area does not have; its own letters stay its own."""
        if self._take(event.key):
            event.stop()
            event.prevent_default()
            return
        await super()._on_key(event)

    def _take(self, key: str) -> bool:
        """Do what a key means here; return whether it means anything but to a text area."""
        means = self._keymap.means(PROMPT, key) or self._keymap.means(EVERYWHERE, key)
        if means == "prompt.send":
            self._submit()
        elif means == "prompt.new_line":
            self.insert("\n")
        else:
            return self._say(means)
        return True

    def _say(self, means: str) -> bool:
        """Post what a key means here, or take up what was typed before."""
        match means:
            case "prompt.leave" | "app.back":
                self.post_message(messages.SteppedBack())
            case "prompt.delivery":
                self.post_message(messages.DeliveryTurned())
            case "prompt.editor":
                self.post_message(messages.EditorWanted(self.text, self._of))
            case "prompt.complete" if self._word() and self.cursor_at_end_of_text:
                self.post_message(messages.WordWanted(self.text))
            case "prompt.complete" | "app.next":
                self.post_message(messages.PaneLeft(1))
            case "app.previous":
                self.post_message(messages.PaneLeft(-1))
            case "prompt.older" if self.cursor_at_first_line and self._place:
                self._recall(self._place - 1)
            case "prompt.newer" if self.cursor_at_last_line and self._place < len(self._sent):
                self._recall(self._place + 1)
            case _:
                return False
        return True

    def _submit(self) -> None:
        """Say what was typed, and begin anew at once: further letters are of the next text."""
        text = self.text
        if not text.strip():
            return
        self.post_message(messages.PromptSubmitted(text, self._of))
        self._sent = [*(one for one in self._sent if one != text), text][-_REMEMBERED:]
        self._place, self._now = len(self._sent), ""
        self._set("")

    def _recall(self, place: int) -> None:
        if self._place == len(self._sent):
            self._now = self.text
        self._place = place
        self._set(self._sent[place] if place < len(self._sent) else self._now)

    def _word(self) -> str:
        return "" if self.text[-1:].isspace() else (self.text.split() or [""])[-1]

    def _set(self, text: str) -> None:
        self.text = escape_prose(text)  # an editor or a file's name may have brought it
        self.move_cursor(self.document.end)


def _common(words: Sequence[str]) -> str:
    first, last = min(words), max(words)
    for place, letter in enumerate(first):
        if last[place : place + 1] != letter:
            return first[:place]
    return first
