"""AppHandle: a frontend's only door to one session's engine, answered by `prsm_core.door`."""

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
    """Mark what only a person may do, and nobody while the session closes."""
    return _mark(method, "acts")


def looks(method: M) -> M:
    """Mark what changes nothing and tells only what agents may know."""
    return _mark(method, "looks")


def asks(method: M) -> M:
    """Mark what only a person may ask for, also while the session closes."""
    return _mark(method, "asks")


def _mark(method: M, may: May) -> M:
    METHODS[operation_name(method)] = method, may
    return method


def operation_name(method: Method) -> str:
    """Return what a method of AppHandle or of a group is called as an operation."""
    return method.__qualname__.lower().removeprefix("apphandle.")


def derive(base: Any, make: Callable[[Method], Any]) -> Any:
    """Return a group's class with `make(method)` for each abstract method of `base`."""
    made = {name: make(getattr(base, name)) for name in base.__abstractmethods__}
    for method in made.values():
        method.__isabstractmethod__ = False  # which `wraps` copies
    return type(base.__name__, (base,), {"__doc__": base.__doc__, **made})


class RunHandle(Protocol):
    """A started run.

    since: The number of the event that it goes on from; 0 for a new run. Up to there interrupted
        processes may have told a `run_finished` each.
    """

    run_id: str
    session: str
    since: int

    async def result(self) -> RunResult:
        """Wait for the run's end; the `run_finished` event is committed by then."""


class Runs(ABC):
    """The runs of the session, one at a time."""

    @abstractmethod
    async def start(self, task: str, **overrides: Any) -> RunHandle:
        """Start a run of `task`; overrides are fields of RunOptions.

        An `abort_signal`, for runs of this process only, interrupts the run once it is set; if it
        is set before the run is in the ledger this raises RunAbortedError. Raises ConfigError while
        a run is open, for a blank task, one that no ledger can keep (code `unfit`), an unknown mode
        or a wrong `timeout_s`; and ControlError once the session is closed.
        """

    @abstractmethod
    async def follow_up(self, task: str, images: Sequence[str] = ()) -> RunHandle:
        """Give the master of the session's last run a follow-up task, as a run of its own.

        The master keeps its name, model, tools and knowledge, also one of an earlier process. It
        takes the mode set by `set_mode` since its run began; one of an earlier process takes that
        of this session's runs. It is shown the `images`, as by `agents.prompt`. Raises ConfigError
        while a run is open, for a blank task, without a master (`no_master`), and if an earlier
        process was cut off before the master or an agent below it had ended (`not_ended`); and
        ProviderNotAvailableError for a mode in which no run could start on its provider.
        """

    @acts
    @abstractmethod
    async def interrupt(self) -> bool:
        """End the open run as `interrupted`: kill its agents, keep the session open.

        Returns once `run_finished` is committed; False if no run was open or it was ending already.
        """

    @acts
    @abstractmethod
    async def set_mode(self, mode: PermissionMode) -> None:
        """Set the mode of runs that begin from now on; living agents keep theirs."""

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

        `before` limits it to events with smaller numbers: give the `seq` of your first entry; an
        empty page is the end. An event is never split, so a page may be shorter, or longer for one
        large event. `detail="summary"` leaves texts and names of tools.

        The agent may be one of an earlier run of the session. Raises MessageRoutingError for an
        unknown agent, ToolInputError for an unknown detail, ConfigError for a limit below 1.
        """

    @acts
    @abstractmethod
    async def prompt(
        self, agent: str, text: str, delivery: str = "queue", images: Sequence[str] = ()
    ) -> str:
        """Send a person's prompt to an agent; return `injected`, `queued` or `interrupting`.

        `inject` puts it into the running turn if the provider can, else it is queued; `interrupt`
        ends the turn and begins another with it; `queue` leaves it for the agent's next wait or
        turn.

        `@path` in the text, as in a task, shows a file or folder of the workspace: what was read
        follows the text, and a notice tells what is not shown.

        `images` are paths, read by the caller's process, or `data:` URLs in base64. Raises
        ConfigError before anything is sent for an unfit image (code `unfit_image`), and for a
        provider that takes none (`no_images`).
        """

    @acts
    @abstractmethod
    async def set_model(self, agent: str, model: str) -> str:
        """Let an agent go on with another model; return that, as `provider/model`.

        A running turn is not touched: the next one is of that model, in a session that gets the
        conversation. The choice is in the ledger when this returns; until it takes effect the tree
        has it as `next_model`. An ended agent, also of an earlier process, takes it in its next
        life. If the model cannot be used after all the one before takes over, with a notice.

        The model is an alias, `provider/model`, a provider for its default, or a model of the
        agent's own provider; its effort is the alias's, or the agent's if the provider stays.
        Raises MessageRoutingError for an unknown agent, ModelNotAvailableError, with the nearest
        names, for an unknown model, ProviderNotAvailableError for a missing provider, and
        ConfigError if a client chooses the model (code `external`).
        """

    @acts
    @abstractmethod
    async def kill(self, agent: str) -> Sequence[str]:
        """Kill an agent and its descendants; return the names of those that this ended.

        Raises MessageRoutingError for an unknown or ended agent.
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
        """Answer a permission request with one of its options; False if it was already answered.

        Options are some of once, always, deny, and those that make a rule: allow_project,
        allow_global, deny_project, deny_global. `via` says where the person is, for the event of
        the answer.
        """

    @acts
    @abstractmethod
    async def answer(self, request: str, answer: Answer, *, via: str = "") -> bool:
        """Answer a question; False if it was already answered.

        Choices are some of the question's `options`; a text may stand beside them or alone. Raises
        ConfigError, and the question waits on, for a choice that is not offered (code
        `not_offered`), several for a question that is not `multiple` (`one_choice`), and a text
        that no ledger can keep (`unfit`).
        """

    @looks
    @abstractmethod
    async def outcome(self, request: str) -> door.RequestOutcome | None:
        """Return how the request with this beginning of an id has ended; None if unknown."""

    @asks
    @abstractmethod
    async def attend(self) -> None:
        """Note that a person is there to answer; repeat it while that is so."""


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

        Raises ConfigError as `accept` does, and if contents are not kept (code `no_changes`).
        """

    @asks
    @abstractmethod
    async def rationale(self, path: str, line: int | None = None) -> door.Rationale:
        """Return why an agent changed a file, or the line that now has this number, from 1.

        The path is one of `list`, or from the workspace. It is about the newest change that was not
        taken back, or the one that made the line. Raises ConfigError: the session has not changed
        the file (code `unchanged_path`) or the line (`unchanged_line`), there is no such line
        (`no_such_line`), or contents were not kept (`unknown_content`, `no_changes`).
        """

    @acts
    @abstractmethod
    async def accept(
        self, changes: Sequence[str] = (), *, agent: str | None = None, call: str | None = None
    ) -> Sequence[door.DecidedChange]:
        """Accept changes: they stay, and are pending no more. Return what was decided.

        They are those of the ids, of an agent and all below it, or of a call; by default all that
        agents of the session made. A change from outside is named only by its id. Raises
        ConfigError for an id that is unknown (code `unknown_change`), ambiguous
        (`ambiguous_change`) or decided (`already_decided`).
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

        What does not merge with later edits stays and is `unmerged`. `undo` takes a rejection back
        by the `act` of its answer. Agents still at work are told. Changes are named as for
        `accept`; those of an agent leave out what may be another's. What a person may have made
        (possible or region) needs its id, or `possible`. Raises ConfigError as `accept` does, and
        PrsmError without git or if the folder cannot be written.
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

        They are those of the ids, of an agent and all below it, or else all accepted ones that
        agents of the session made. Only they are committed, merged onto HEAD: other differences and
        what is staged stay, and no file is written. `message` replaces the one made of their
        reasons; trailers name agents, providers, models and the session. What a person may have
        made gets commits of its own. No hook runs. `dry_run` only says what would be done.

        Raises ConfigError, with nothing done, as `accept` does for ids, for a change that is not
        accepted (code `not_accepted`), if git does not know the person (`no_identity`), during a
        merge or the like (`under_way`), while git is at work (`index_locked`), or if HEAD moved
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

        A turn's changes that a person may have made need `possible`.

        A prompt is `wanted` by its number, 1 for the newest, or by the `id` of the snapshot before
        it, `ID@POSITION` if that was before several; None: the newest. Its `files` go back, with
        what is staged, and its `conversation`: another session begins as this one was then; this
        one stays. Both are done or neither, also if a process dies. Before a session's first prompt
        there is no
        conversation: the session is set aside. What is known to be the person's stays unless
        `mine`.

        An act is whatever PRSM did to files: a rejection, a merge, a restore, an undo; `wanted` by
        its id, None: the last one. Undoing a restore of files and conversation brings both back, or
        without `conversation` only the files. Any other undo writes only the act's files: later
        edits are merged, or stay. Rejected changes are pending again.

        Raises ConfigError for a prompt or restore while a run is open (code `run_open`), if agents
        write in the folder (`agents_write`), for a prompt of which nothing is kept
        (`unknown_prompt`), for an unknown act (`unknown_act`, `nothing_to_undo`), and for one of
        another session (`other_session`).
        """

    @asks
    @abstractmethod
    async def worktrees(self) -> Sequence[door.LeftWorktree]:
        """Return the worktrees of ended agents that are not merged; merged ones are removed."""

    @abstractmethod
    def hold_files(self) -> AsyncGenerator[Sequence[str], None]:
        """Keep agents from beginning to write while the iterator is open, for at most 10 minutes.

        Its one value comes once no call may write any more, at the latest after 10 seconds: the
        agents that still may, each with what it runs.
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

        Waits up to 10 seconds for agents that write; those that still do are `unquiet`. Raises
        ConfigError if files are not kept (code `no_snapshots`).
        """

    @acts
    @abstractmethod
    async def restore(self, snapshot: str, *, dry_run: bool = False) -> door.UndoReport:
        """Restore the files and what is staged from a snapshot; `changes.undo` takes that back.

        It is named by its id or the beginning of one. `dry_run` only says what would change;
        `snapshot` is None then. Raises what an undo of a restore does, and ConfigError for an
        unknown or ambiguous snapshot (code `unknown_snapshot`, `ambiguous_snapshot`).
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

        This one is not touched, also while it runs. The fork is `interrupted` until it is opened
        with `RunOptions.resumes`, and shares the workspace's files. Raises StoreError for an
        unknown event, or one before the first agent.
        """


class AppHandle(Protocol):
    """The same over a local engine and over another process."""

    @property
    def options(self) -> RunOptions:
        """What the runs that begin from now on have, if they say nothing else."""

    @property
    def runs(self) -> Runs:
        """The runs of the session, one at a time."""

    @property
    def agents(self) -> Agents:
        """The agents of the session: what they do, say and know."""

    @property
    def requests(self) -> Requests:
        """What agents ask a person, and the answers."""

    @property
    def changes(self) -> Changes:
        """What agents have changed in files, and what a person decides about it."""

    @property
    def snapshots(self) -> Snapshots:
        """Files as they were."""

    @property
    def sessions(self) -> Sessions:
        """The sessions of this repository's ledger, of which this one is one."""

    def events(self, after: int = 0) -> AsyncIterator[Event]:
        """Yield committed events of the session after `after`, then live ones with deltas.

        A delta comes after the events of its agent that precede it, and before the
        `message_completed` of its message. It says which message it is of, `turn` and `message`,
        and how many characters of that text come before it, `at`. The first deltas are what was
        said so far of uncommitted messages; with `after` above 0 also of the last ones committed
        behind it, as far as they are kept. So take of each piece what is beyond the text that you
        have; a piece that begins beyond it follows a lost one.

        A reader that is too slow loses deltas (told by a notice), never committed events. Raises
        ConfigError (code `no_such_event`) for a number that the session has not reached.
        """

    @asks
    async def view(self) -> door.View:
        """Return one picture of the session; `events(after=view.seq)` goes on from there.

        A run that was cut off and not resumed is `interrupted`: nothing of it runs or waits.
        """

    @asks
    async def providers(self) -> Sequence[door.ProviderReport]:
        """Look which providers can be used, which may take seconds."""

    @asks
    async def models(self) -> Sequence[door.ModelRow]:
        """Return the known models, by provider and name.

        Providers that have not listed theirs for a day are asked, which may take seconds.
        """

    @asks
    async def policy(self) -> door.PolicyReport:
        """Return the rules on commands and tools, and what was allowed always."""

    @asks
    async def complete(self, text: str) -> Sequence[door.Completion]:
        """Return what the last word of `text` may become, at most 50, in order.

        `@` begins a file or folder of the workspace, any other word an agent's name.
        """
