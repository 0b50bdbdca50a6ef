"""What a person did on the screen, in the past tense: widgets post these and call nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from collections.abc import Callable

    from prsm_tui.acts import Acts


@dataclass
class ActWanted(Message):
    """An act was asked for: `do` has it done; a `question` is to be answered by yes before."""

    do: Callable[[Acts], None]
    question: str = ""


@dataclass
class AgentChosen(Message):
    """The cursor of the tree is on an agent; None: on the session itself."""

    agent: str | None
    opens: bool = False  # it was opened, rather than passed by


class HistoryWanted(Message):
    """Somebody scrolled to the beginning of what is there."""


@dataclass
class TextCopied(Message):
    """A text of a transcript is wanted elsewhere."""

    text: str


class NothingPasted(Message):
    """A text was wanted from a clipboard that has none, or that cannot be read."""


@dataclass
class PromptSubmitted(Message):
    """A text was typed to an agent, None where none was chosen; or it is a command."""

    text: str
    agent: str | None


@dataclass
class WordWanted(Message):
    """What the last word may become is asked for."""

    text: str


@dataclass
class EditorWanted(Message):
    """A text is to be gone on with in the person's own editor."""

    text: str
    agent: str | None


class DeliveryTurned(Message):
    """The next way of delivery was asked for."""


@dataclass
class PaneLeft(Message):
    """The next pane was asked for, or the one before."""

    step: int


class SteppedBack(Message):
    """One step back was asked for."""


@dataclass
class KillWanted(Message):
    """An agent is to be killed; it was not asked about yet."""

    agent: str


class SteppedOut(Message):
    """One step back was asked for where there is none in the session."""


@dataclass
class SessionWanted(Message):
    """Something is to be done with a session of the list: `what` is the name of its key."""

    session: str
    what: str


class SessionPassed(Message):
    """The cursor of the list is on another session."""


@dataclass
class TaskGiven(Message):
    """A task was typed for a session that is to begin, in a folder."""

    workspace: str
    task: str
