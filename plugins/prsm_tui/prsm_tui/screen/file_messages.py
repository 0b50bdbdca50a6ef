"""What a person did at changes and snapshots of files, in the past tense; each knows its act."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prsm_tui.acts import Acts
    from prsm_tui.model.review import Comment


class ActWanted(Message):
    """Something that is to be done was asked for; a `question` is to be answered by yes before."""

    question = ""

    def do(self, acts: Acts) -> None:
        """Have it done."""
        raise NotImplementedError


class ChangesOutdated(ActWanted):
    """The changes that are shown are not the newest ones."""

    def do(self, acts: Acts) -> None:
        """Read them again."""
        acts.files.load()


class ChangeOpened(ActWanted):
    """The lines of a change were looked at."""

    def __init__(self, change: str) -> None:
        super().__init__()
        self.change = change

    def do(self, acts: Acts) -> None:
        """Read them."""
        acts.files.open(self.change)


class ChangesAccepted(ActWanted):
    """Changes were found good."""

    def __init__(self, changes: Sequence[str], question: str = "") -> None:
        super().__init__()
        self.changes = changes
        self.question = question

    def do(self, acts: Acts) -> None:
        """Accept them."""
        acts.files.accept(self.changes)


class ChangesRejected(ActWanted):
    """Changes were found bad."""

    def __init__(self, changes: Sequence[str], question: str) -> None:
        super().__init__()
        self.changes = changes
        self.question = question

    def do(self, acts: Acts) -> None:
        """Take them back."""
        acts.files.reject(self.changes)


class LinesCommented(ActWanted):
    """Something was said about lines of changes."""

    def __init__(self, comments: Sequence[Comment], delivery: str, question: str = "") -> None:
        super().__init__()
        self.comments, self.delivery, self.question = comments, delivery, question

    def do(self, acts: Acts) -> None:
        """Send it to the agents that wrote the lines; what reaches nobody is kept again."""
        acts.files.comment(self.comments, self.delivery)


class LineQuestioned(ActWanted):
    """Who made a line, and why, was asked."""

    def __init__(self, path: str, line: int) -> None:
        super().__init__()
        self.path, self.line = path, line

    def do(self, acts: Acts) -> None:
        """Tell it."""
        acts.files.explain(self.path, self.line)


class AuthorWanted(ActWanted):
    """The call that made a change was asked for."""

    def __init__(self, agent: str, call: str) -> None:
        super().__init__()
        self.agent, self.call = agent, call

    def do(self, acts: Acts) -> None:
        """Find it in the transcript of its agent."""
        acts.files.find(self.agent, self.call)


class SnapshotsOutdated(ActWanted):
    """The snapshots that are shown are not the newest ones."""

    def do(self, acts: Acts) -> None:
        """Read them again."""
        acts.files.load_snapshots()


class SnapshotTaken(ActWanted):
    """A snapshot was asked for."""

    def __init__(self, description: str) -> None:
        super().__init__()
        self.description = description

    def do(self, acts: Acts) -> None:
        """Take it."""
        acts.files.take_snapshot(self.description)


class SnapshotOpened(ActWanted):
    """What a restore would change was asked."""

    def __init__(self, snapshot: str) -> None:
        super().__init__()
        self.snapshot = snapshot

    def do(self, acts: Acts) -> None:
        """Find it out."""
        acts.files.plan(self.snapshot)


class SnapshotRestored(ActWanted):
    """The files are to be as in a snapshot."""

    def __init__(self, snapshot: str, question: str) -> None:
        super().__init__()
        self.snapshot = snapshot
        self.question = question

    def do(self, acts: Acts) -> None:
        """Restore it."""
        acts.files.restore(self.snapshot)


class ActUndone(ActWanted):
    """What was done to files last is to be taken back."""

    question = "Take back what was done to files last?"

    def do(self, acts: Acts) -> None:
        """Take it back."""
        acts.files.undo_act()
