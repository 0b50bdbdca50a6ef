"""AppHandles in which nothing can be done: LookApp, over the ledger of a session nobody runs."""

from __future__ import annotations

import asyncio
import time
from functools import wraps
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

import msgspec
from msgspec.structs import replace

from prsm_core.domain.budgets import NO_LIMITS
from prsm_core.door import RequestOutcome
from prsm_core.engine.agents.resuming import last_master
from prsm_core.engine.door.history import read_history
from prsm_core.engine.door.offers import session_rows
from prsm_core.engine.door.view import build_view, request_rows, tell_budget
from prsm_core.engine.journal.feed import no_such_event
from prsm_core.engine.journal.views import ConversationStore, build_tree
from prsm_core.engine.spending import BudgetLedger
from prsm_core.engine.workspace_files import not_installed, tell_snapshot
from prsm_core.errors import ControlError
from prsm_core.interfaces.app_handle import (
    Agents,
    Changes,
    Requests,
    Runs,
    Sessions,
    Snapshots,
    derive,
)
from prsm_core.interfaces.runs import RunOptions
from prsm_core.kit.arguments import takes_checked

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
    from pathlib import Path

    from prsm_core import door
    from prsm_core.domain.events import Event
    from prsm_core.interfaces.files import FilesReader
    from prsm_core.interfaces.store import SessionInfo, Store

A = TypeVar("A", bound="LedgerApp")
_ANSWERS = frozenset({"permission_resolved", "question_answered"})


class ReadOnlyApp:
    """AppHandle of which each act is refused, and what only an engine knows."""

    def refuse(self) -> NoReturn:
        """Raise PrsmError: nothing can be done here."""
        raise NotImplementedError

    async def complete(self, text: str) -> Sequence[door.Completion]:
        """Return nothing: there is nobody to say it to."""
        del text
        return ()

    async def providers(self) -> Sequence[door.ProviderReport]:
        """Raise PrsmError: no engine is here."""
        self.refuse()

    async def models(self) -> Sequence[door.ModelRow]:
        """Raise PrsmError: no engine is here."""
        self.refuse()

    async def policy(self) -> door.PolicyReport:
        """Raise PrsmError: no engine is here."""
        self.refuse()


class LedgerApp(ReadOnlyApp):
    """AppHandle over the ledger of a session; its groups have what can be read."""

    def __init__(
        self, store: Store, info: SessionInfo, options: RunOptions, state_dir: Path | None
    ) -> None:
        self.store = store
        self.info = info
        self.options = options
        self.state_dir = state_dir
        self.sessions: Sessions = self.group(_Sessions)

    def group(self, kind: Any) -> Any:
        """Return a group whose class has what can be read; all else is refused."""
        return takes_checked(derive(kind, _refused))(self)


def _refused(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    async def refuse(self: Any, *_: Any, **__: Any) -> Any:
        self._app.refuse()

    return refuse


class Group(Generic[A]):
    """A group of a LedgerApp."""

    def __init__(self, app: A) -> None:
        self._app = app
        self._store = app.store
        self._session = app.info.session_id


class ReadOnlyRequests(Group[A], Requests):
    """What agents have asked a person."""

    @staticmethod
    def ended(outcomes: Mapping[str, Mapping[str, Any]], request: str) -> RequestOutcome | None:
        """Return the outcome of the one request whose id begins so."""
        found = [id_ for id_ in outcomes if request and id_.startswith(request)]
        return msgspec.convert(outcomes[found[0]], RequestOutcome) if len(found) == 1 else None

    async def attend(self) -> None:
        """Do nothing: nobody waits for the person who looks."""


class ReadOnlyChanges(Group[A], Changes):
    """What agents have changed."""

    def hold_files(self) -> AsyncGenerator[Sequence[str], None]:
        """Raise PrsmError: nothing can be done here."""
        self._app.refuse()


class _Sessions(Group[LedgerApp], Sessions):
    async def list(self) -> Sequence[door.SessionSummary]:
        """Return the sessions of the ledger, newest first, as they are now."""
        found = await self._store.sessions()
        return await asyncio.to_thread(session_rows, found, self._app.state_dir)


class _Runs(Group["LookApp"], Runs):
    async def budget(self) -> door.BudgetReport:
        """Return what the newest run has used; its limits are those that it began with."""
        state = await self._store.state(self._session)
        run = state.runs[-1].run_id
        masters = (now.agent for now in state.agents if now.agent.parent_id is None)
        limits = [agent.grant.budget for agent in masters if agent.run_id == run]
        budgets = BudgetLedger(limits[-1] if limits else NO_LIMITS)
        budgets.take_over(state, (now.agent for now in state.agents))
        return tell_budget(budgets.run.report(), budgets.spent)


class _Agents(Group["LookApp"], Agents):
    async def tree(self) -> door.AgentTree:
        """Return the tree as `prsm tree --json` prints it; who has not ended is interrupted."""
        rows = await self._store.agents(self._session)
        return build_tree(
            self._session,
            self._app.info.run_id,
            rows,
            time.time(),
            interrupted=True,
            unwritten=(),
            changes=await self._store.changes(self._session),
        )

    async def history(
        self, agent: str, detail: str = "full", *, before: int | None = None, limit: int = 200
    ) -> Sequence[door.HistoryEntry]:
        """Return a page of an agent's conversation."""
        rows = await self._store.agents(self._session)
        agent_id = ConversationStore.resolve_agent_id(agent, rows)
        return await read_history(
            self._store, self._session, agent_id, detail, before=before, limit=limit
        )


class _Requests(ReadOnlyRequests["LookApp"]):
    async def open(self) -> Sequence[door.OpenRequest]:
        """Return what nobody has answered, oldest first; it waits again once the run goes on."""
        agents = await self._store.agents(self._session)
        names = {row.descriptor.agent_id: row.descriptor.name for row in agents}
        return request_rows(await self._store.open_requests(self._session), names, as_it_is)

    async def outcome(self, request: str) -> door.RequestOutcome | None:
        """Return how a request has ended, given the beginning of its id."""
        ended = {
            event.data["request"]: event.data
            async for event in self._store.events(self._session)
            if event.type in _ANSWERS
        }
        return self.ended(ended, request)


class _Changes(ReadOnlyChanges["LookApp"]):
    async def list(self) -> Sequence[door.Change]:
        """Return all changes of the session, oldest first."""
        reader = self._app.files()
        return () if reader is None else await reader.list()

    async def show(self, change: str) -> door.ChangeDetail:
        """Return a change with its lines and its reason."""
        return await self._reader().show(change)

    async def rationale(self, path: str, line: int | None = None) -> door.Rationale:
        """Return why a file, or a line of it, was changed."""
        return await self._reader().rationale(path, line)

    async def worktrees(self) -> Sequence[door.LeftWorktree]:
        """Return the worktrees of agents that have ended and are not merged."""
        reader = self._app.files()
        return () if reader is None else await reader.worktrees()

    def _reader(self) -> FilesReader:
        reader = self._app.files()
        if reader is None:
            raise not_installed()
        return reader


class _Snapshots(Group["LookApp"], Snapshots):
    async def list(self) -> Sequence[door.Snapshot]:
        """Return the snapshots that were taken for the session, oldest first."""
        state = await self._store.state(self._session)
        return [tell_snapshot(self._session, one) for one in state.snapshots]


@takes_checked
class LookApp(LedgerApp):
    """AppHandle over a ledger that is only read: the session as it was left."""

    def __init__(
        self,
        store: Store,
        info: SessionInfo,
        options: RunOptions,
        state_dir: Path,
        files: Callable[[], FilesReader | None],
    ) -> None:
        """Look at a session; `files` returns what reads its files, if anything does."""
        super().__init__(store, info, options, state_dir)
        self.session = info.session_id
        self.files = files
        self.runs: Runs = self.group(_Runs)
        self.agents: Agents = self.group(_Agents)
        self.requests: Requests = self.group(_Requests)
        self.changes: Changes = self.group(_Changes)
        self.snapshots: Snapshots = self.group(_Snapshots)

    def refuse(self) -> NoReturn:
        """Raise ControlError: nobody runs the session."""
        raise ControlError(
            f"nobody runs session {self.session}: here it can only be looked at",
            hint="own it by Hub.open, or have it served by Hub.start, and attach to it",
            code="no_owner",
        )

    async def events(self, after: int = 0) -> AsyncIterator[Event]:
        """Yield the committed events after `after`, and end with the last one."""
        if after > self.info.last_seq:
            raise no_such_event(self.session, after)
        async for event in self.store.events(self.session, after):
            yield event

    async def view(self) -> door.View:
        """Return the session as it was left; see AppHandle."""
        picture = await self.store.picture(self.session)
        return build_view(
            self.session,
            picture,
            _NobodySpeaks(),
            time.time(),
            lost={row.descriptor.agent_id for row in picture.agents},
            unwritten=(),
            redact=as_it_is,
            mode=self.options.mode.value,
            budget=await self.runs.budget(),
        )


async def look(
    store: Store, info: SessionInfo, state_dir: Path, files: Callable[[], FilesReader | None]
) -> LookApp:
    """Return a handle on a session; its options have the mode that a follow-up would take."""
    master = last_master(await store.agents(info.session_id))
    options = RunOptions(task=None, workspace=info.workspace, session=info.session_id)
    if master is not None:
        options = replace(options, mode=master.descriptor.run_mode)
    return LookApp(store, info, options, state_dir, files)


class _NobodySpeaks:
    def since(self, *_: object) -> NoReturn:
        raise RuntimeError("no turn runs")


def as_it_is(value: Any) -> Any:
    """Return a value that needs no redaction: the ledger holds no secrets."""
    return value
