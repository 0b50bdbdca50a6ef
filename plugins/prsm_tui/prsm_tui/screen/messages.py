"""What a person did on the screen, in the past tense: widgets post these and call nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prsm_tui.acts import Acts


class ActWanted(Message):
    """An act was asked for: `do` has it done; a `question` is to be answered by yes before."""

    def __init__(self, do: Callable[[Acts], None], question: str = "") -> None:
        super().__init__()
        self.do = do
        self.question = question


class AgentChosen(Message):
    """The cursor of the tree is on an agent; None: on the session itself."""

    def __init__(self, agent: str | None, *, opens: bool = False) -> None:
        super().__init__()
        self.agent = agent
        self.opens = opens  # it was opened, rather than passed by


class HistoryWanted(Message):
    """Somebody scrolled to the beginning of what is there."""


class TextCopied(Message):
    """A text of a transcript is wanted elsewhere."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class NothingPasted(Message):
    """A text was wanted from a clipboard that has none, or that cannot be read."""


class PromptSubmitted(Message):
    """A text was typed to an agent, None where none was chosen; or it is a command."""

    def __init__(self, text: str, agent: str | None) -> None:
        super().__init__()
        self.text = text
        self.agent = agent


class WordWanted(Message):
    """What the last word may become is asked for."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class EditorWanted(Message):
    """A text is to be gone on with in the person's own editor."""

    def __init__(self, text: str, agent: str | None) -> None:
        super().__init__()
        self.text = text
        self.agent = agent


class DeliveryTurned(Message):
    """The next way of delivery was asked for."""


class PaneLeft(Message):
    """The next pane was asked for, or the one before."""

    def __init__(self, step: int) -> None:
        super().__init__()
        self.step = step


class SteppedBack(Message):
    """One step back was asked for."""


class KillWanted(Message):
    """An agent is to be killed; it was not asked about yet."""

    def __init__(self, agent: str) -> None:
        super().__init__()
        self.agent = agent


class VerdictGiven(Message):
    """A permission was answered, or several alike."""

    def __init__(self, requests: Sequence[str], verdict: str) -> None:
        super().__init__()
        self.requests = requests
        self.verdict = verdict


class QuestionAnswered(Message):
    """A question was answered, by what was typed."""

    def __init__(self, request: str, typed: str) -> None:
        super().__init__()
        self.request = request
        self.typed = typed


class SteppedOut(Message):
    """One step back was asked for where there is none in the session."""


class SessionWanted(Message):
    """Something is to be done with a session of the list: `what` is the name of its key."""

    def __init__(self, session: str, what: str) -> None:
        super().__init__()
        self.session = session
        self.what = what


class SessionPassed(Message):
    """The cursor of the list is on another session."""


class TaskGiven(Message):
    """A task was typed for a session that is to begin, in a folder."""

    def __init__(self, workspace: str, task: str) -> None:
        super().__init__()
        self.workspace = workspace
        self.task = task
