"""What agents changed in files, what became of it, and files as they were."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from prsm_core.domain.record import Record


class AgentName(Record, frozen=True, kw_only=True):
    """An agent: its id, `agent`, and its `name`. Both None: a person, or another program."""

    agent: str | None = None
    name: str | None = None


class ChangeAuthor(AgentName, frozen=True, kw_only=True):
    """An agent that may have made a change; `call`: in which call, None where that has no name."""

    call: str | None = None


class Change(Record, frozen=True, kw_only=True):
    r"""A change of one file, as a session has found it.

    change: Its id.
    path, folder: From the top of the folder, which is an absolute path; bytes that are no UTF-8 are
        escaped as `\xNN`.
    repository: The one in the folder that it is of; "" for the folder itself.
    kind: added, modified or deleted.
    old_mode, new_mode: As git has them; None where there is no file.
    before, after: Ids of contents; None where there is no file, "" where it is not kept.
    added, removed: Lines; None where it is no text, or not kept.
    how: How it is known whose it is: named (a call's arguments explain it), shared (those of
        several agents do), sole (it comes from a worktree of its agent's own), possible or region
        (calls ran that do not explain it, of region in a folder that is leased to the agent) or
        outside.
    agent, name, call, turn: The likeliest author, with the ids of the call and the turn; None where
        it came from outside.
    authors: All that may have made it, the likeliest first.
    beside: Who else is on the file, which is a conflict.
    note: Why a content is not kept.
    at, decided_at: When it was found, and when it was decided about, in Unix seconds.
    state: pending, accepted, committed, rejected, or unmerged, which could not be taken back.
    why: Of one that is unmerged the reason, of one that is committed the id of the commit.
    """

    change: str
    path: str
    folder: str
    repository: str = ""
    kind: str
    old_mode: str | None = None
    new_mode: str | None = None
    before: str | None = None
    after: str | None = None
    added: int | None = None
    removed: int | None = None
    how: str
    agent: str | None = None
    name: str | None = None
    call: str | None = None
    turn: str | None = None
    authors: tuple[ChangeAuthor, ...] = ()
    beside: tuple[AgentName, ...] = ()
    note: str | None = None
    at: float
    state: str
    why: str | None = None
    decided_at: float | None = None


class Reason(Record, frozen=True, gc=False):
    """What an agent said before a call that changed a file.

    text: A sentence of it.
    kind: text or thinking.
    score: How much it speaks of reasons.
    seq: The number of the event that has it.
    """

    text: str
    kind: str
    score: int
    seq: int | None = None


class ChangeDetail(Change, frozen=True, kw_only=True):
    """A change with its `rationale`, None where the agent gave none, and a patch, its `diff`."""

    rationale: Reason | None
    diff: str


class Rationale(Record, frozen=True, kw_only=True):
    """Why a file, or a line of it, was changed.

    change, path, agent, name, call, turn, how, state, at: As of the change.
    reason: None where the agent gave none.
    """

    change: str
    path: str
    agent: str | None
    name: str | None
    call: str | None
    turn: str | None
    how: str
    state: str
    at: float
    reason: Reason | None


class FileLeft(Record, frozen=True, kw_only=True):
    """A file that something leaves as it is: its `path`, and `why`."""

    path: str
    why: str


class DecidedChange(Record, frozen=True, kw_only=True):
    """What was decided about a change.

    change, path, state: As of the change, from now on.
    why: Why one that was to be taken back stays.
    act: The id by which `Changes.undo` undoes a rejection; None where that wrote nothing.
    """

    change: str
    path: str
    state: str
    why: str | None = None
    act: str | UnsetType | None = UNSET


class Comment(Record, frozen=True, kw_only=True):
    """What a person says about lines of a change.

    change: Its id, or the beginning of one.
    text: What is said.
    old, new: The first and the last line that it is about, by their numbers before and after the
        change, from 1: removed and added lines, and those between. Without either it is about all
        of the change.
    """

    change: str
    text: str
    old: tuple[int, int] | None = None
    new: tuple[int, int] | None = None


class SentComments(Record, frozen=True, kw_only=True):
    """What became of the comments that one recipient gets.

    comments: Which they are of those that were given, from 0.
    agent: Whom they go to, as an id; None for a follow-up task, and for nobody.
    text: What is said; "" where nobody gets it.
    how: injected, queued or interrupting, as of a prompt, or follow_up; None where it was not sent.
    why: Why it was not sent.
    """

    comments: tuple[int, ...]
    agent: str | None = None
    text: str = ""
    how: str | None = None
    why: str | None = None


class NewCommit(Record, frozen=True, kw_only=True):
    """A commit of accepted changes.

    commit: Its id; None in a dry run.
    repository: As of a change.
    subject, message: The first line, and all of it.
    agents: Whose changes it has.
    possible: Whether it is no more than possible that they made them.
    changes, files: Their ids, and the paths from the top of the folder.
    """

    commit: str | None
    repository: str
    subject: str
    message: str
    agents: tuple[AgentName, ...]
    possible: bool
    changes: tuple[str, ...]
    files: tuple[str, ...]


class ChangeLeft(Record, frozen=True, kw_only=True):
    """A change by its id, and its `path`, that is in no commit, and `why`."""

    change: str
    path: str
    why: str


class ChangeHeld(Record, frozen=True, kw_only=True):
    """A change by its id, and its `path`, that the `commit` has already, which is HEAD."""

    change: str
    path: str
    commit: str | None


class CommitReport(Record, frozen=True, kw_only=True):
    """The `commits` that were made, or would be; what is `left` out, and what HEAD has: `held`."""

    commits: tuple[NewCommit, ...] = ()
    left: tuple[ChangeLeft, ...] = ()
    held: tuple[ChangeHeld, ...] = ()


class ChangedFile(Record, frozen=True, kw_only=True):
    """A file that is another: its `path`, and its `change`: added, modified, deleted or mode."""

    path: str
    change: str


class UndoReport(Record, frozen=True, kw_only=True):
    """What an undo or a restore did.

    session: In which the conversation goes on now; None where it does not, or goes on as before.
    origin, prompt: The session of the prompt that was taken back, and its first line.
    later: How many prompts came after it.
    restored, snapshot: The ids of what came back, and of what was before.
    files, changes: How many files are others, and which.
    notes: What a person is to be told of it.
    differs: Paths that another program changed meanwhile.
    decided: About changes, by the undo of a turn or an act.
    act: The id by which this is undone; None where nothing was written.
    spared: Paths of the person's own files, which stay.
    stays: What else was left as it is.
    """

    session: str | None = None
    origin: str | None = None
    prompt: str | None = None
    later: int = 0
    restored: str | None = None
    snapshot: str | None = None
    files: int = 0
    changes: tuple[ChangedFile, ...] = ()
    notes: tuple[str, ...] = ()
    differs: tuple[str, ...] = ()
    decided: tuple[DecidedChange, ...] = ()
    act: str | None = None
    spared: tuple[str, ...] = ()
    stays: tuple[FileLeft, ...] = ()


class LeftWorktree(Record, frozen=True, kw_only=True):
    """The worktree of an agent that has ended, which is not merged.

    agent, name, branch: Whose it is, by id and by name, and the branch that it is on.
    folder, parent: Its top, and the top of what it was made from, as absolute paths.
    result: conflict; kept, where the agent did not succeed; or partial, where what is in its region
        is merged.
    files: Those that it has changed.
    conflicts, outside: What does not merge, and what lies outside of its region.
    """

    agent: str
    name: str
    branch: str
    folder: str
    parent: str
    result: str
    files: tuple[str, ...] = ()
    conflicts: tuple[FileLeft, ...] = ()
    outside: tuple[FileLeft, ...] = ()


class Snapshot(Record, frozen=True, kw_only=True):
    """The files of a folder at a moment.

    id: By which `prsm snapshot` knows it.
    kind: What it was taken for: run, prompt, manual …
    session: The session that it was taken for.
    position: The number of that session's newest commit before it.
    taken_at: Unix seconds.
    agent: Whom the prompt is for, as an id.
    folder: As an absolute path.
    tree: The git object that holds the files.
    branch, head: Of the repository then; None for none.
    description: In a person's words, or the prompt.
    bytes_skipped: Of files that were too large to keep.
    unquiet: The agents, with what they ran, that may have written meanwhile.
    """

    id: str
    kind: str
    session: str | None
    position: int
    taken_at: float
    agent: str | None
    folder: str
    tree: str
    branch: str | None
    head: str | None
    description: str
    bytes_skipped: int
    unquiet: tuple[str, ...]
