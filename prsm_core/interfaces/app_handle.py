"""AppHandle: a frontend's only door to the engine of one session.

Its answers are records of `prsm_core.door`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence

    from prsm_core import door
    from prsm_core.domain.agents import PermissionMode
    from prsm_core.domain.events import Event
    from prsm_core.domain.permissions import Answer
    from prsm_core.door import Comment
    from prsm_core.interfaces.runs import RunOptions, RunResult

    Method = Callable[..., Awaitable[Any]]

__all__ = [
    "Agents",
    "AppHandle",
    "Changes",
    "Requests",
    "RunHandle",
    "Runs",
    "Sessions",
    "Snapshots",
]

M = TypeVar("M", bound="Method")

May = Literal["acts", "looks", "asks"]
# The methods of AppHandle that another process may call with one answer each, and what it takes.
# One of a group has the name of that before its own: `agents.kill`.
METHODS: dict[str, tuple[Method, May]] = {}


def acts(method: M) -> M:
    """Mark what a person alone may do, and nobody once the session is being closed."""
    return _mark(method, "acts")


def looks(method: M) -> M:
    """Mark what changes nothing and tells nothing that agents may not know."""
    return _mark(method, "looks")


def asks(method: M) -> M:
    """Mark what a person alone may ask for, also while the session is being closed."""
    return _mark(method, "asks")


def _mark(method: M, may: May) -> M:
    METHODS[operation_name(method)] = method, may
    return method


def operation_name(method: Method) -> str:
    """Return what a method of AppHandle or of a group is called as an operation."""
    return method.__qualname__.lower().removeprefix("apphandle.")


def derive(base: Any, make: Callable[[Method], Any]) -> Any:
    """Return a class of a group that has what `base` lacks, made of each abstract method."""
    made = {name: make(getattr(base, name)) for name in base.__abstractmethods__}
    for method in made.values():
        method.__isabstractmethod__ = False  # which `wraps` copies
    return type(base.__name__, (base,), {"__doc__": base.__doc__, **made})


class RunHandle(Protocol):
    """A started run.

    since: The number of the event that it goes on from; 0 for one that begins. Each process that
        was interrupted before has told of a `run_finished` of its own up to there.
    """

    run_id: str
    session: str
    since: int

    async def result(self) -> RunResult:
        """Wait for the run's end; the `run_finished` event is committed by then."""
        ...


class Runs(ABC):
    """The runs of the session, one at a time."""

    @abstractmethod
    async def start(self, task: str, **overrides: Any) -> RunHandle:
        """Start a run of `task`; overrides are fields of RunOptions.

        An `abort_signal` among them, which is for a run of this process, interrupts the run once
        it is set; one that is set before the run is in the ledger has this raise RunAbortedError.
        Raises ConfigError while a run is open, for a blank task and for one that no ledger can keep
        (code `unfit`), and for an unknown mode or a `timeout_s` that is none; and ControlError once
        the session is closed.
        """

    @abstractmethod
    async def follow_up(self, task: str, images: Sequence[str] = ()) -> RunHandle:
        """Give the master of the session's last run a follow-up task, as a run of its own.

        It keeps its name, its model, its tools and what it knows; it may be one of an earlier
        process. It takes the mode that was set by `set_mode` since its run began, and that of this
        session's runs if it is one of an earlier process. It is shown the `images`, as by
        `agents.prompt`. Raises ConfigError while a run is open, for a blank task, where there was
        no master yet (`no_master`), and where an earlier process was cut off before that master,
        or an agent below it, had ended (`not_ended`); and ProviderNotAvailableError for another
        mode where no run could be started on its provider.
        """

    @acts
    @abstractmethod
    async def interrupt(self) -> bool:
        """End the open run as `interrupted`: its agents are killed, and the session stays open.

        Returns once `run_finished` is committed; False when no run was open, or its end was
        being written already.
        """

    @acts
    @abstractmethod
    async def set_mode(self, mode: PermissionMode) -> None:
        """Let the runs that begin from now on have this mode; agents that live keep theirs."""

    @asks
    @abstractmethod
    async def budget(self) -> door.BudgetReport:
        """Return what the newest run has used, reserved and left."""


class Agents(ABC):
    """The agents of the session: what they do, say and know."""

    @looks
    @abstractmethod
    async def tree(self) -> door.AgentTree:
        """Return the tree as `prsm tree --json` prints it."""

    @asks
    @abstractmethod
    async def history(
        self, agent: str, detail: str = "full", *, before: int | None = None, limit: int = 200
    ) -> Sequence[door.HistoryEntry]:
        """Return a page of an agent's conversation, oldest first: the last `limit` entries.

        With `before` they are those of events with smaller numbers: give it the `seq` of the first
        entry that you have; an empty page is the end. An event is never cut in
        two: where one has more entries than `limit`, it comes whole; so a page may be shorter, too.
        With `detail="summary"` there are the texts and the names of the tools alone.

        The agent may be one of an earlier run of the session. Raises MessageRoutingError for one
        that is unknown, ToolInputError for an unknown detail, ConfigError for a limit below 1.
        """

    @acts
    @abstractmethod
    async def prompt(
        self, agent: str, text: str, delivery: str = "queue", images: Sequence[str] = ()
    ) -> str:
        """Send a person's prompt to an agent; return `injected`, `queued` or `interrupting`.

        `inject` puts it into the running turn, where the provider can; `interrupt` ends the turn
        and begins another with it; `queue` leaves it for the agent's next wait or turn, which is
        also what becomes of a prompt that could not be injected.

        `@path` in what a person says, here as in a task, shows a file or a folder of the workspace;
        what it read stands behind the text, and a notice tells what is not shown.

        The `images`, each a path or a `data:` URL in base64, are shown with the text. A path is
        read by the process of the caller. Raises ConfigError before anything is sent: for one that
        is unfit (code `unfit_image`), and for an agent whose provider takes none (`no_images`).
        """

    @acts
    @abstractmethod
    async def set_model(self, agent: str, model: str) -> str:
        """Let an agent go on with another model; return that, as `provider/model`.

        A turn that runs is not touched: its next one is of that model, in a session that is given
        the conversation. That is in the ledger when this returns, and holds after a crash; until
        then the tree has it as `next_model`. An agent that has ended, also in an earlier process,
        takes it in its next life. Where the model cannot be used after all, the one before
        takes over again, which a notice tells.

        The model is named as anywhere: an alias, `provider/model`, a provider for its default, or
        a model of the agent's own provider; its effort is that of the alias, or the agent's where
        the provider stays. Raises MessageRoutingError for an unknown agent, ModelNotAvailableError,
        with the nearest names, for an unknown model, ProviderNotAvailableError where its provider
        is not there, and ConfigError where a client chooses it (code `external`).
        """

    @acts
    @abstractmethod
    async def kill(self, agent: str) -> Sequence[str]:
        """Kill an agent and its descendants; return the names of those that this ended.

        Raises MessageRoutingError for an agent that is unknown or has ended already.
        """

    @acts
    @abstractmethod
    async def restart(self, agent: str, prompt: str) -> None:
        """Start an ended agent again with a new prompt."""


class Requests(ABC):
    """What agents ask a person, and the answers."""

    @looks
    @abstractmethod
    async def open(self) -> Sequence[door.OpenRequest]:
        """Return the open permission requests and questions, oldest first."""

    @acts
    @abstractmethod
    async def resolve(self, request: str, verdict: str, *, via: str = "") -> bool:
        """Answer a permission request with one of the options that it has.

        These are some of once, always, deny, and the answers that make a rule: allow_project,
        allow_global, deny_project, deny_global. `via` says where the person is: the event of the
        answer tells it. Returns False when it was already answered.
        """

    @acts
    @abstractmethod
    async def answer(self, request: str, answer: Answer, *, via: str = "") -> bool:
        """Answer a question; False when it was already answered.

        Its choices are some of the question's `options`; a text may say anything beside them, or
        without. Raises ConfigError for a choice that is not offered (code `not_offered`), for
        several where the question is not `multiple` (`one_choice`), and for a text that no ledger
        can keep (`unfit`): the question waits on.
        """

    @looks
    @abstractmethod
    async def outcome(self, request: str) -> door.RequestOutcome | None:
        """Return how the request whose id begins so has ended; None where that is not known."""

    @asks
    @abstractmethod
    async def attend(self) -> None:
        """Note that a person is there to answer; say it again as long as that is so."""


class Changes(ABC):
    """What agents have changed in files, and what a person decides about it."""

    @asks
    @abstractmethod
    async def list(self) -> Sequence[door.Change]:
        """Return all changes of files that the session has found, oldest first."""

    @asks
    @abstractmethod
    async def show(self, change: str) -> door.ChangeDetail:
        """Return a change, decided or not, by its id or the beginning of one.

        Raises ConfigError as `accept` does for an id, and where contents are not kept (code
        `no_changes`).
        """

    @asks
    @abstractmethod
    async def rationale(self, path: str, line: int | None = None) -> door.Rationale:
        """Return why an agent changed a file, or the line of it that has this number now, from 1.

        The file is one that `list` tells of, by its path there, or from the workspace. It is of
        its newest change that was not taken back, or of that one which made the line. Raises
        ConfigError: the session has changed no such file (code `unchanged_path`), or not that line
        (`unchanged_line`); it has no such line (`no_such_line`), or contents were not kept
        (`unknown_content`, `no_changes`).
        """

    @acts
    @abstractmethod
    async def accept(
        self, changes: Sequence[str] = (), *, agent: str | None = None, call: str | None = None
    ) -> Sequence[door.DecidedChange]:
        """Accept changes: they stay, and are pending no more. Return what was decided.

        They are those of the ids, or of an agent and all below it, or of a call; without any of
        these all that agents of the session made. What is from outside is named by its id alone.
        Raises ConfigError for an id that is of none (code `unknown_change`), of several
        (`ambiguous_change`), or of one that is decided (`already_decided`).
        """

    @acts
    @abstractmethod
    async def reject(
        self,
        changes: Sequence[str] = (),
        *,
        agent: str | None = None,
        call: str | None = None,
        possible: bool = False,
    ) -> Sequence[door.DecidedChange]:
        """Take changes back, each alone: what came later stays. Return what was decided.

        What does not merge with later edits stays as it is, and is `unmerged`. `undo` takes it back
        by the `act` of each answer. The agents are told,
        if they are still at work. Changes are named as for `accept`; one that may be of another
        agent, too, is not among those of an agent. What a person may have made, which is told as
        possible or region, is meant by its id, or with `possible`. Raises ConfigError as that does,
        and PrsmError where git is not there or the folder cannot be written.
        """

    @acts
    @abstractmethod
    async def comment(
        self, comments: Sequence[Comment], delivery: str = "queue"
    ) -> Sequence[door.SentComments]:
        """Send a person's comments on changes to their authors, those for one of them at once.

        Where an author has ended, the nearest agent above it that works gets them. If none does,
        and no run is open, they are a follow-up task. The text names the file and the lines, and
        quotes these. It is delivered as by `agents.prompt`.

        Raises ConfigError, with nothing sent, for ids as `accept` does, for lines that the change
        does not show (code `no_such_line`) or whose text is not kept (`no_changes`), and where a
        comment is blank (`blank`).
        """

    @acts
    @abstractmethod
    async def commit(
        self,
        changes: Sequence[str] = (),
        *,
        agent: str | None = None,
        by: str = "agent",
        message: str | None = None,
        dry_run: bool = False,
    ) -> door.CommitReport:
        """Commit accepted changes, one commit `by` each agent, or by each task; nobody is asked.

        They are those of the ids, or of an agent and all below it, or else all accepted ones that
        agents of the session made. Only they are committed, merged onto HEAD: what else differs in
        the files, and what is staged, stays as it is, and no file is written. The `message` takes
        the place of what is made of their reasons; trailers name agents, providers, models and the
        session. What a person may have made is in commits of its own. No hook runs. With `dry_run`
        it is only said what would be done.

        Raises ConfigError, with nothing done, for ids as `accept` does, or for one that is not
        accepted yet (code `not_accepted`); where git does not know the person (`no_identity`), a
        merge or the like is under way (`under_way`), git is at work (`index_locked`), or HEAD moved
        meanwhile (`moved`).
        """

    @acts
    @abstractmethod
    async def undo(
        self,
        what: str = "prompt",
        wanted: str | None = None,
        *,
        files: bool = True,
        conversation: bool = True,
        mine: bool = False,
        possible: bool = False,
    ) -> door.UndoReport:
        """Take back a `prompt`, the pending changes of the last `turn`, or an `act`.

        Of a turn those that a person may have made are meant with `possible` only.

        A prompt is `wanted` by its number, 1 for the newest, or by the `id` of the snapshot before
        it, as `ID@POSITION` where that was before several; None: the newest. Of it the `files` go
        back, with what is staged, or the `conversation`, which is another session that begins as
        this one was then; this one stays. Both are done, or neither, also where a process dies.
        Before the first prompt of a session there is no conversation: it is set aside, and whoever
        goes on begins another one. What is known to be the person's stays as it is, unless it is
        to go back as well (`mine`).

        An act is whatever PRSM did to files: a rejection, a merge, a restore, an undo. It is
        `wanted` by its id; None: the last one. The undo of a restore that was of files and
        conversation brings both back, or without `conversation` the files alone. That of any other
        act writes only its files: what was edited since is merged, or stays. Rejected changes are
        pending again.

        Raises ConfigError for a prompt and a restore while a run is open (code `run_open`), where
        agents write in the folder (`agents_write`), for a prompt of which nothing is kept
        (`unknown_prompt`), for an act that there is not (`unknown_act`, `nothing_to_undo`), and for
        one of another session (`other_session`).
        """

    @asks
    @abstractmethod
    async def worktrees(self) -> Sequence[door.LeftWorktree]:
        """Return the worktrees of agents that have ended and are not merged.

        What is merged is removed.
        """

    @abstractmethod
    def hold_files(self) -> AsyncGenerator[Sequence[str], None]:
        """Keep agents from beginning to write for as long as the iterator is open, 10 minutes long.

        Its one value comes once no call may write any more, at the latest after 10 seconds: the
        agents that still may, each with what it runs. Nothing more comes until it is closed.
        """


class Snapshots(ABC):
    """Files as they were."""

    @asks
    @abstractmethod
    async def list(self) -> Sequence[door.Snapshot]:
        """Return the snapshots of files that were taken for the session, oldest first."""

    @acts
    @abstractmethod
    async def take(self, description: str = "") -> door.Snapshot:
        """Keep the files as they are.

        Agents that write are waited for, 10 seconds long; those that still do are `unquiet`. Raises
        ConfigError where files are not kept (code `no_snapshots`).
        """

    @acts
    @abstractmethod
    async def restore(self, snapshot: str, *, dry_run: bool = False) -> door.UndoReport:
        """Let the files, and what is staged, be as in a snapshot; `changes.undo` takes that back.

        It is named by its id or the beginning of one. With `dry_run` it is only said what would
        change, and `snapshot` is None. Raises what that does for a restore; also ConfigError for
        one that there is not (code `unknown_snapshot`, `ambiguous_snapshot`).
        """


class Sessions(ABC):
    """The sessions of this repository's ledger, of which this one is one."""

    @asks
    @abstractmethod
    async def list(self) -> Sequence[door.SessionSummary]:
        """Return the sessions of this repository's ledger, newest first."""

    @acts
    @abstractmethod
    async def fork(self, at: int | None = None) -> str:
        """Begin another session as this one was at event `at`, the newest if None; return it.

        This one is not touched, also while it runs. The fork is `interrupted` until somebody opens
        it with `RunOptions.resumes`, and shares the files of the workspace. Raises StoreError for
        an event that there is not, or one before the first agent.
        """


class AppHandle(Protocol):
    """The same over a local engine and over another process."""

    @property
    def options(self) -> RunOptions:
        """What the runs that begin from now on have, if they say nothing else."""
        ...

    @property
    def runs(self) -> Runs:
        """The runs of the session, one at a time."""
        ...

    @property
    def agents(self) -> Agents:
        """The agents of the session: what they do, say and know."""
        ...

    @property
    def requests(self) -> Requests:
        """What agents ask a person, and the answers."""
        ...

    @property
    def changes(self) -> Changes:
        """What agents have changed in files, and what a person decides about it."""
        ...

    @property
    def snapshots(self) -> Snapshots:
        """Files as they were."""
        ...

    @property
    def sessions(self) -> Sessions:
        """The sessions of this repository's ledger, of which this one is one."""
        ...

    def events(self, after: int = 0) -> AsyncIterator[Event]:
        """Yield committed events of the session after `after`, then live ones with deltas.

        A delta comes behind the events of its agent that precede it, and before those that follow:
        none comes after the `message_completed` of its message. It says which message it is of,
        `turn` and `message`, and how many characters of that text come before it, `at`. The first
        deltas are what was said so far of messages that are not committed; where `after` is above
        0, also of the last ones that were committed behind it, as far as they are kept. So who has
        a view takes of each piece what is beyond the text that it has; a piece that begins beyond
        that follows one that was lost to a slow reader.

        A reader that is too slow loses deltas (told by a notice), never committed events. Raises
        ConfigError (code `no_such_event`) for a number that the session has not reached.
        """
        ...

    @asks
    async def view(self) -> door.View:
        """Return one picture of the session, as it was when event `seq` was its last.

        `events(after=view.seq)` goes on from there without a gap or a repetition. A run that
        was cut off, and that nobody goes on with, is `interrupted`: nothing of it runs or waits.
        """
        ...

    @asks
    async def providers(self) -> Sequence[door.ProviderReport]:
        """Look which providers can be used, which may take seconds."""
        ...

    @asks
    async def models(self) -> Sequence[door.ModelRow]:
        """Return the models that are known, by provider and name.

        Providers that have not listed theirs for a day are asked, which may take seconds.
        """
        ...

    @asks
    async def policy(self) -> door.PolicyReport:
        """Return the rules on commands and tools, and what was allowed always."""
        ...

    @asks
    async def complete(self, text: str) -> Sequence[door.Completion]:
        """Return what the last word of `text` may become, at most 50, in order.

        A word that begins with `@` becomes a file or a folder of the workspace, any other the name
        of an agent.
        """
        ...
