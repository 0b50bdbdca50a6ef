"""The port for keeping the files that agents work on.

An engine opens one `WorkspaceFiles` with a `FilesContext` and asks it directly. These classes keep
nothing: without a package that keeps files, runs work and nothing is recorded. What needs such a
package is refused with an error that names it. A package derives its own classes from these.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, nullcontext
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from prsm_core.domain.record import Record
from prsm_core.door import Change, LeftWorktree, Snapshot
from prsm_core.engine.quiet import HOLD_SECONDS, CallWatch
from prsm_core.engine.state import Evidence
from prsm_core.errors import AgentSpawnError, ConfigError, StoreError
from prsm_core.interfaces.app_handle import Changes, Snapshots
from prsm_core.kit.arguments import takes_checked

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from prsm_core.config import Settings
    from prsm_core.domain.agents import AgentDescriptor, AgentResult, AgentState, SpawnRequest
    from prsm_core.domain.ids import Ids
    from prsm_core.domain.sessions import SessionSnapshot
    from prsm_core.engine.journal.feed import Feed
    from prsm_core.engine.journal.unit import Journal
    from prsm_core.engine.journal.views import ConversationStore
    from prsm_core.engine.processes.executor import CommandSandbox
    from prsm_core.engine.processes.launcher import ProcessLauncher
    from prsm_core.engine.quiet import QuietMoment
    from prsm_core.engine.state import AgentRecord, Leases, Roster
    from prsm_core.interfaces.clock import Clock
    from prsm_core.interfaces.store import Store
    from prsm_core.kit.background import Background
    from prsm_core.policies.port import CommandPolicy

    Values = Mapping[str, Any]  # of JSON
    Say = Callable[[str | None, str, str], Awaitable[str]]
    OpenFiles = Callable[["FilesContext"], "WorkspaceFiles"]

KEEP = "prsm install files"
UNWEIGHED = "nobody looked into it: no plugin keeps files"
_NO_VARIABLES: Mapping[str, str] = MappingProxyType({})


def not_installed() -> ConfigError:
    """Return the error of an act on files that no plugin keeps."""
    return ConfigError("no plugin keeps files here", hint=KEEP, code="no_files")


class ToldTurn(Protocol):
    """An agent's turn, as far as it is told of changes."""

    turn_id: str

    def tell(self, text: str) -> None:
        """Have the model told something with its next answer, or prompt."""


class FilesContext(Record, frozen=True, kw_only=True):
    """What files are kept with. What an engine has only later is behind a callable.

    `env` has the variables of commands run in the `workspace`. `quiet` lets calls in that may
    write. `leases` returns what others than an agent have for themselves, `turn_of` its running or
    last turn, and `task_of` the task of its newest life.
    """

    settings: Settings
    workspace: str
    trusted: bool
    session: str
    store: Store
    launcher: ProcessLauncher
    env: Mapping[str, str]
    clock: Clock
    ids: Ids
    background: Background
    journal: Journal
    feed: Feed
    quiet: QuietMoment
    roster: Roster
    conversations: ConversationStore
    leases: Callable[[str | None], Leases]
    turn_of: Callable[[str], ToldTurn | None]
    task_of: Callable[[str], asyncio.Task[None] | None]
    sandbox: Callable[[], CommandSandbox]
    commands: CommandPolicy


class Folders:
    """Tells where agents work: all of them in the session's own folder, `main`."""

    def __init__(self, main: str) -> None:
        self.main = main

    def of(self, _folder: str) -> str:
        """Return the workspace of whoever works in a folder."""
        return self.main

    def top(self, _folder: str) -> str | None:
        """Return the top of the worktree that a folder is in, if any."""
        return None

    def variables(self, _folder: str) -> Mapping[str, str]:
        """Return the variables of whoever works in a folder."""
        return _NO_VARIABLES

    def home(self, path: str) -> str:
        """Return where a worktree's path is in the session's own files."""
        return path

    def seen_from(self, path: str, _folder: str) -> str:
        """Return a path of the session's folder as an agent in another folder has it."""
        return path

    def own(self, _record: AgentRecord, _roster: Roster) -> str | None:
        """Return the id of an agent's own worktree, if it has one."""
        return None


class Trees:
    """Gives no agent a worktree; a wish for one is refused."""

    def is_wanted(self, request: SpawnRequest, _plan: AgentDescriptor) -> bool:
        """Return whether a new agent is to have one."""
        return bool(request.worktree)

    async def give(self, _record: AgentRecord) -> None:
        """Make a worktree for an agent about to be born. Raises AgentSpawnError."""
        error = not_installed()
        raise AgentSpawnError(error.message, hint=error.hint, code="no_worktree")

    async def drop(self, _records: Sequence[AgentRecord]) -> None:
        """Remove the worktrees of agents that were not born after all."""

    async def ensure(self, _record: AgentRecord) -> None:
        """Have the worktree of an agent that lives again. Raises AgentSpawnError."""

    async def settle(self, _record: AgentRecord, _state: AgentState) -> Values | None:
        """Merge the changes of an agent that ends; return what is told of its worktree."""
        return None

    def leave(self, _record: AgentRecord, _told: Values) -> None:
        """Remove the worktree of an ended agent if all of it is merged."""

    async def settled(self) -> None:
        """Wait a while until merged worktrees are removed."""


class ChangeWatch(CallWatch, Protocol):
    """Finds what calls have changed while a run is open."""

    def begin(self, *, is_resumed: bool) -> None:
        """Note a run; a resumed one may have calls whose changes were not found."""

    async def finish(self) -> None:
        """Find all changes until now; report nothing more until the next run."""

    async def flush(self) -> None:
        """Find the changes of ended calls before somebody else writes."""

    def while_others_write(self) -> AbstractAsyncContextManager[None]:
        """Let another process of PRSM write to the folder while the gate is held."""


class Proof:
    """Weighs what an agent says it has done. What is not checked stays a claim."""

    async def weigh(
        self, _artifacts: Sequence[str], _commands: Sequence[str], *, is_last: bool = False
    ) -> Evidence:
        """Check the files and commands an agent names; run the gates if it changed files.

        Raises OrchestrationError, code `gate_failed`, to send the agent back, unless it `is_last`.
        """
        del is_last
        return Evidence(gaps=(UNWEIGHED,))

    async def again(self, result: AgentResult) -> AgentResult:
        """Return an accepted result with what its children did to it since."""
        return result


async def _refuse(_self: object, *_: Any, **__: Any) -> Any:
    raise not_installed()


class NoChanges(Changes):
    """The changes of a session that nobody records: none. Decisions on them are refused."""

    def __init_subclass__(cls) -> None:
        takes_checked(cls)

    def __init__(self, context: FilesContext, watch: ChangeWatch | None = None) -> None:
        self._context = context
        self._watch = watch

    async def list(self) -> Sequence[Change]:
        """Return nothing."""
        return ()

    async def worktrees(self) -> Sequence[LeftWorktree]:
        """Return nothing."""
        return ()

    async def hold_files(self) -> AsyncGenerator[Sequence[str], None]:
        """Keep agents from starting to write while this is open."""
        async with AsyncExitStack() as stack:
            held = self._context.quiet.hold(limit=HOLD_SECONDS)
            hold = await stack.enter_async_context(held)
            if self._watch is not None:
                await stack.enter_async_context(self._watch.while_others_write())
            yield [self._context.journal.redact(str(call)) for call in hold.disturbing]
            await asyncio.get_running_loop().create_future()  # until it is closed

    show = rationale = accept = reject = comment = commit = undo = _refuse


class NoSnapshots(Snapshots):
    """The snapshots that a session has had. Taking and restoring is refused."""

    def __init_subclass__(cls) -> None:
        takes_checked(cls)

    def __init__(self, context: FilesContext) -> None:
        self._context = context

    async def list(self) -> Sequence[Snapshot]:
        """Return the session's snapshots of files, oldest first."""
        session = self._context.session
        try:
            state = await self._context.store.state(session)
        except StoreError as error:
            if error.code != "unknown_session":
                raise
            return ()
        return [tell_snapshot(session, one) for one in state.snapshots]

    take = restore = _refuse


def tell_snapshot(session: str | None, one: SessionSnapshot) -> Snapshot:
    """Return a snapshot as frontends see it."""
    return Snapshot(
        id=one.snapshot_id,
        kind=one.kind,
        session=session,
        position=one.last_commit,
        taken_at=one.taken_at,
        agent=one.agent_id,
        folder=one.folder,
        tree=one.tree,
        branch=one.branch,
        head=one.head,
        description=one.description,
        bytes_skipped=one.bytes_skipped,
        unquiet=tuple(one.unquiet),
    )


class WorkspaceFiles:
    """Keeps the files of one engine's session.

    Attributes:
        context: What they are kept with.
        folders: Where agents work.
        trees: What gives agents worktrees.
        watch: What finds changes; None: nobody looks.
    """

    folders: Folders
    trees: Trees
    watch: ChangeWatch | None = None

    def __init__(self, context: FilesContext) -> None:
        self.context = context
        self.folders, self.trees = Folders(context.workspace), Trees()

    def door(
        self, _is_running: Callable[[], bool], _locks: Path | None, _say: Say
    ) -> tuple[Changes, Snapshots]:
        """Return the groups of an AppHandle; other engines are found by their `locks`.

        `say` is given an agent, or None for a follow-up task, what is said, and the delivery. It
        returns how that was delivered.
        """
        return NoChanges(self.context), NoSnapshots(self.context)

    def before(
        self, _said: str, _folder: str, _agent: str | None
    ) -> AbstractAsyncContextManager[None]:
        """Hold calls while a prompt or task is written; then take a folder's snapshot."""
        return nullcontext()

    def proof(self, _record: AgentRecord) -> Proof:
        """Return what weighs what an agent says it has done."""
        return Proof()

    async def recover(self, _folder: Path) -> Sequence[str]:
        """Finish or undo interrupted work in a folder, or raise PrsmError; return what was done."""
        return ()

    async def settle(self) -> None:
        """Wait for snapshots under way: a run is about to end."""

    async def aclose(self) -> None:
        """Close what has processes of its own."""
