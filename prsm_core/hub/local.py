"""Many sessions in one process: each is composed for its own workspace, in a task of its own.

So a session may be opened in one task and left in another, and whatever breaks in one is told to
whoever opened it and cancels nobody else.

Where sessions lie, and what is read and changed there: nobody has to own a session for it.

A session of this process, in the task that runs it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from contextlib import asynccontextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from msgspec.structs import asdict, replace

from prsm_core.app import open_app
from prsm_core.config import ledger_path, resolve_paths
from prsm_core.domain.ids import Ids
from prsm_core.door import HubSession
from prsm_core.engine.agents.resuming import last_master
from prsm_core.engine.control.remote import open_remote
from prsm_core.engine.control.session_lock import unbegun
from prsm_core.engine.door.history import read_history
from prsm_core.engine.door.looking import look
from prsm_core.engine.door.naming import name_session
from prsm_core.engine.door.offers import Owning, lost_agents, session_rows
from prsm_core.engine.door.view import request_rows
from prsm_core.engine.forking import ForkRequest, fork_session
from prsm_core.errors import ControlError, PrsmError, SessionOwnedError, StoreError
from prsm_core.interfaces.files import WorkspaceFilesSpec
from prsm_core.kit.arguments import known_mode, takes_checked
from prsm_core.kit.background import Background
from prsm_core.kit.clocks import SystemClock
from prsm_core.plugins.needed import chosen
from prsm_core.plugins.objects import load_object
from prsm_core.store import SqliteStore
from prsm_core.workspace.identity import repo_identity

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from prsm_core.config import Paths, Settings
    from prsm_core.config.snapshot import Snapshot
    from prsm_core.door import DetachedRun, HistoryEntry, OpenRequest, SessionSummary
    from prsm_core.interfaces.files import FilesCare, FilesReader
    from prsm_core.interfaces.frontend import AppHandle, FrontendSpec, RunOptions
    from prsm_core.interfaces.store import SessionInfo, Store
    from prsm_core.plugins import PluginManager

    Load = Callable[[str], "Loaded"]


class Errands(Protocol):
    """What a hub has the command line do: it starts no process and deletes nothing by itself.

    Each raises PrsmError for what cannot be done, and then nothing is.
    """

    async def start(self, options: RunOptions) -> DetachedRun:
        """Begin a run in a process of its own; see Hub.start."""
        ...

    async def delete(self, ledger: Path, session: str) -> None:
        """Delete a session of a ledger; see Hub.delete."""
        ...

    async def export(self, ledger: Path, session: str, output: Path, form: str) -> Path:
        """Write a session of a ledger to a file, and return that; see Hub.export."""
        ...


_log = logging.getLogger("prsm.app")


class Loaded(Protocol):
    """What a session is composed of: all that is its workspace's own."""

    @property
    def paths(self) -> Paths:
        """Where the files of the workspace lie."""
        ...

    @property
    def settings(self) -> Settings:
        """The settings that are in force there."""
        ...

    @property
    def plugins(self) -> PluginManager:
        """The plugins, with the sections that they have there."""
        ...

    @property
    def trusted(self) -> bool:
        """Whether the user trusts the workspace's own configuration."""
        ...

    @property
    def snapshot(self) -> Snapshot | None:
        """What that trust is about."""
        ...

    @property
    def keeps_rules(self) -> bool:
        """Whether answers make rules."""
        ...


@asynccontextmanager
async def open_hub(
    options: RunOptions, load: Load, *, frontend: FrontendSpec, errands: Errands
) -> AsyncIterator[LocalHub]:
    """Open a hub for a frontend; leaving it closes the sessions that are still open.

    `load` is called for each session with its workspace; what it raises, opening raises. The
    `errands` do what the hub itself does not.
    """
    async with Background(_log_surprise, SystemClock()) as background:
        hub = LocalHub(options, load, frontend, background, errands)
        try:
            yield hub
        finally:
            await hub.aclose()


@takes_checked
class LocalHub:
    """Hub over the engines of this process, and over the sockets of others."""

    def __init__(
        self,
        options: RunOptions,
        load: Load,
        frontend: FrontendSpec,
        background: Background,
        errands: Errands,
    ) -> None:
        self.options = options
        self._load = load
        self._frontend = frontend
        self._background = background
        self._errands = errands
        self._ids = Ids(SystemClock().time)
        self._open: dict[str, Owned] = {}

    @asynccontextmanager
    async def open(self, options: RunOptions) -> AsyncIterator[AppHandle]:
        """Own a session; see Hub."""
        loaded = self._load(options.workspace)
        session = options.session
        if session is None:
            session = self._ids.ulid()
        else:
            _ = await find_session(session, loaded.paths, only_its_own=True)
        mode, workspace = known_mode(options.mode), str(loaded.paths.workspace)
        options = replace(options, session=session, workspace=workspace, mode=mode)
        owned = Owned(
            open_app(
                options,
                loaded.settings,
                loaded.plugins,
                paths=loaded.paths,
                frontend=self._frontend,
                trusted=loaded.trusted,
                snapshot=loaded.snapshot,
                keeps_rules=loaded.keeps_rules,
            )
        )
        async with self._hosted(session, owned) as app:
            yield app

    @asynccontextmanager
    async def _hosted(self, session: str, owned: Owned) -> AsyncIterator[AppHandle]:
        """Keep a session open in a task of its own; raises what goes wrong in that."""
        task = self._background.start(owned.run(), name=f"session {session}")
        task.add_done_callback(owned.note_end)
        try:
            app = await owned.app()
            if session not in self._open:
                self._open[session] = owned
            yield app
        except BaseException:
            await self._close(session, owned, task)
            if owned.error is not None and owned.is_open:
                _log.error("session %s did not close in order", session, exc_info=owned.error)
            raise
        await self._close(session, owned, task)
        if owned.error is not None:
            raise owned.error

    async def _close(self, session: str, owned: Owned, task: asyncio.Task[None]) -> None:
        if owned.is_open:
            owned.leave.set()
        else:
            task.cancel()
        await owned.ended.wait()
        if self._open.get(session) is owned:
            del self._open[session]

    @asynccontextmanager
    async def attach(self, session: str) -> AsyncIterator[AppHandle]:
        """Reach a session that a process owns; see Hub."""
        if (owned := self._open.get(session)) is not None:
            yield await owned.app()
            return
        state = _paths(self.options.workspace).state
        async with open_remote(state, session, via=f"prsm {self._frontend.name}") as app:
            yield app

    @asynccontextmanager
    async def look(self, session: str) -> AsyncIterator[AppHandle]:
        """Look at a session that nobody runs; see Hub."""
        ledger, info = await self._find(session)
        state = _paths(self.options.workspace).state
        if (await asyncio.to_thread(Owning.look, state, session)).is_owned:
            raise SessionOwnedError(
                f"session {session} is owned by a process", hint="attach to it: Hub.attach"
            )
        async with await SqliteStore.open(ledger, read_only=True) as store:
            files = partial(self._files_of, store, info)
            yield await look(store, info, state, lru_cache(maxsize=1)(files))

    def _files_of(self, store: Store, info: SessionInfo) -> FilesReader | None:
        """Return what reads a session's files; raises what keeps its workspace from loading."""
        loaded = self._load(info.workspace)
        named, plugins = loaded.settings.workspace.files, loaded.plugins
        spec = chosen(plugins, WorkspaceFilesSpec, named, "workspace.files")
        if spec is None or spec.care is None:
            return None
        care: FilesCare = load_object(spec.care, plugin=plugins.owner_of(spec).name)(loaded.paths)
        return care.reader(store, info.session_id, info.workspace)

    async def sessions(self, workspace: str | None = None) -> Sequence[HubSession]:
        """Return the sessions of a repository or of all, newest first; see Hub."""
        paths = _paths(workspace or self.options.workspace)
        found = await asyncio.to_thread(ledgers, paths, only_its_own=workspace is not None)
        rows: list[HubSession] = []
        for path in found:
            try:
                rows += await sessions_in(path, paths.state)
            except PrsmError as error:
                _log.warning("the sessions in %s are not listed", path, exc_info=error)
        return sorted(rows, key=lambda row: (row.started_at, row.session), reverse=True)

    async def start(self, options: RunOptions) -> DetachedRun:
        """Begin a run in a process of its own; see Hub."""
        return await self._errands.start(replace(options, mode=known_mode(options.mode)))

    async def peek(self, session: str, limit: int = 20) -> Sequence[HistoryEntry]:
        """Return what a session's master did last; see Hub."""
        ledger = (await self._find(session)).ledger
        async with await SqliteStore.open(ledger, read_only=True) as store:
            master = last_master(await store.agents(session))
            if master is None:
                return ()
            agent = master.descriptor.agent_id
            return await read_history(store, session, agent, "full", before=None, limit=limit)

    async def rename(self, session: str, name: str) -> None:
        """Give a session a name; see Hub."""
        found = await self._find(session)
        async with await SqliteStore.open(found.ledger) as store:
            await name_session(store, found.info, name)

    async def fork(self, session: str, at: int | None = None) -> str:
        """Make another session that begins as one was; see Hub."""
        request = ForkRequest(at=None if at is None else str(at))
        async with await SqliteStore.open((await self._find(session)).ledger) as store:
            state = await fork_session(store, session, request, Ids(time.time), time.time())
            return state.session_id

    async def delete(self, session: str) -> None:
        """Delete a session for good; see Hub."""
        await self._errands.delete((await self._find(session)).ledger, session)

    async def export(self, session: str, output: str, form: str = "json") -> str:
        """Write a session to a file; see Hub."""
        ledger = (await self._find(session)).ledger
        return str(await self._errands.export(ledger, session, Path(output), form))

    async def _find(self, session: str) -> Found:
        return await find_session(session, _paths(self.options.workspace))

    async def aclose(self) -> None:
        """Close the sessions that are still open."""
        for owned in self._open.values():
            owned.leave.set()
        for owned in tuple(self._open.values()):
            await owned.ended.wait()


def _paths(workspace: str) -> Paths:
    return resolve_paths(Path(workspace), os.environ)


def _log_surprise(name: str, error: Exception) -> None:
    _log.error("%s failed", name, exc_info=error)


class Found(NamedTuple):
    """A session, and the ledger that it is in."""

    ledger: Path
    info: SessionInfo


async def find_session(session: str, paths: Paths, *, only_its_own: bool = False) -> Found:
    """Return where a session is, in a ledger of the workspace's repository or in any.

    Another ledger that cannot be read hides no session. Raises StoreError for one that there is
    not, which tells what could not be looked into, and SessionOwnedError for one that a process
    owns and no ledger has yet.
    """
    unread: list[StoreError] = []
    for path in await asyncio.to_thread(ledgers, paths, only_its_own=only_its_own):
        try:
            async with await SqliteStore.open(path, read_only=True) as store:
                for info in await store.sessions():
                    if info.session_id == session:
                        return Found(path, info)
        except StoreError as error:
            if only_its_own:
                raise
            unread.append(error)
    if (owned := unbegun(paths.state, session)) is not None:
        raise owned
    where = f" in {paths.workspace}" if only_its_own else ""
    hint = "open one without a session: it is a new one"
    raise StoreError(
        f"there is no session {session!r}{where}",
        hint="; ".join([hint, *(error.message for error in unread)]),
        code="unknown_session",
    )


def ledgers(paths: Paths, *, only_its_own: bool) -> list[Path]:
    """Return the ledger of the workspace's repository, or those of all, as far as they exist."""
    key = repo_identity(paths.workspace).key if only_its_own else "*"
    ledger = ledger_path(paths, key)
    folder = ledger.parents[1]
    return sorted(folder.glob(str(ledger.relative_to(folder))))


async def sessions_in(path: Path, state_dir: Path) -> list[HubSession]:
    """Return the sessions of a ledger as Hub.sessions tells them; none of one not yet begun."""
    try:
        opened = await SqliteStore.open(path, read_only=True)
    except StoreError as error:
        if error.code == "no_ledger":
            return []
        raise
    async with opened as store:
        rows = await asyncio.to_thread(session_rows, await store.sessions(), state_dir)
        return [
            HubSession(**asdict(row), waits=await _waits(store, row, state_dir)) for row in rows
        ]


async def _waits(
    store: SqliteStore, row: SessionSummary, state_dir: Path
) -> tuple[OpenRequest, ...]:
    """Return what waits for a person; with its owner, or a run's engine, its requests end."""
    session = row.session
    requests = () if row.pid is None else await store.open_requests(session)
    if not requests:
        return ()
    agents, owning = await store.agents(session), Owning.look(state_dir, session)
    lost = lost_agents(agents, await store.runs(session), owning)
    requests = [request for request in requests if request.agent_id not in lost]
    names = {agent.descriptor.agent_id: agent.descriptor.name for agent in agents}
    return tuple(request_rows(requests, names, lambda value: value))


class Owned:
    """A session of this process, in the task that runs it."""

    def __init__(self, opening: AbstractAsyncContextManager[AppHandle]) -> None:
        self.leave = asyncio.Event()
        self.ended = asyncio.Event()
        self.is_open = False
        self.error: Exception | None = None
        self._opening = opening
        self._app: AppHandle | None = None
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Hold the session open until it is left."""
        try:
            async with self._opening as self._app:
                self.is_open = True
                self._changed.set()
                await self.leave.wait()
        except Exception as error:  # noqa: BLE001 - handed to whoever opened it
            self.error = error

    def note_end(self, _: object) -> None:
        """Note that the task has ended, which may be before it began."""
        self.ended.set()
        self._changed.set()

    async def app(self) -> AppHandle:
        """Return the session's handle once it is open; raises what keeps it from that."""
        await self._changed.wait()
        if self.error is not None:
            raise self.error
        if self._app is None:  # the task was cancelled: the hub is being left
            raise ControlError("the hub was closed before the session was open", code="hub_closed")
        return self._app
