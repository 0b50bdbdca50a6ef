"""Many sessions in one process: each is composed for its own workspace, in a task of its own.

So a session may be opened in one task and left in another, and whatever breaks in one is told to
whoever opened it and cancels nobody else.
"""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from prsm_core.app import open_app
from prsm_core.config import ledger_path, resolve_paths
from prsm_core.domain.ids import Ids
from prsm_core.engine.control.remote import open_remote
from prsm_core.engine.door.offers import session_rows
from prsm_core.engine.door.view import request_rows
from prsm_core.errors import ControlError, PrsmError, StoreError
from prsm_core.kit.background import Background
from prsm_core.kit.clocks import SystemClock
from prsm_core.store import SqliteStore
from prsm_core.workspace.identity import repo_identity

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from prsm_core.config import Paths, Settings
    from prsm_core.config.snapshot import Snapshot
    from prsm_core.interfaces.frontend import AppHandle, FrontendSpec, RunOptions
    from prsm_core.interfaces.store import Store
    from prsm_core.plugins import PluginManager

    Load = Callable[[str], "Loaded"]

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
    options: RunOptions, load: Load, *, frontend: FrontendSpec
) -> AsyncIterator[LocalHub]:
    """Open a hub for a frontend; leaving it closes the sessions that are still open.

    `load` is called for each session with its workspace; what it raises, opening raises.
    """
    async with Background(_log_surprise, SystemClock()) as background:
        hub = LocalHub(options, load, frontend, background)
        try:
            yield hub
        finally:
            await hub.aclose()


class LocalHub:
    """Hub over the engines of this process, and over the sockets of others."""

    def __init__(
        self, options: RunOptions, load: Load, frontend: FrontendSpec, background: Background
    ) -> None:
        self.options = options
        self._load = load
        self._frontend = frontend
        self._background = background
        self._ids = Ids(SystemClock().time)
        self._open: dict[str, _Owned] = {}

    @asynccontextmanager
    async def open(self, options: RunOptions) -> AsyncIterator[AppHandle]:
        """Own a session; see Hub."""
        loaded = self._load(options.workspace)
        session = options.session
        if session is None:
            session = self._ids.ulid()
        else:
            await _check_there_is(session, loaded.paths)
        options = replace(options, session=session, workspace=str(loaded.paths.workspace))
        owned = _Owned(
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
    async def _hosted(self, session: str, owned: _Owned) -> AsyncIterator[AppHandle]:
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

    async def _close(self, session: str, owned: _Owned, task: asyncio.Task[None]) -> None:
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
        state = self._paths(self.options.workspace).state
        async with open_remote(state, session, via=f"prsm {self._frontend.name}") as app:
            yield app

    async def sessions(self, workspace: str | None = None) -> Sequence[Mapping[str, Any]]:
        """Return the sessions of a repository or of all, newest first; see Hub."""
        paths = self._paths(workspace or self.options.workspace)
        ledgers = await asyncio.to_thread(_ledgers, paths, only_its_own=workspace is not None)
        rows: list[Mapping[str, Any]] = []
        for path in ledgers:
            try:
                rows += await _sessions_in(path, paths.state)
            except PrsmError as error:
                _log.warning("the sessions in %s are not listed", path, exc_info=error)
        return sorted(rows, key=lambda row: (row["started_at"], row["session"]), reverse=True)

    def _paths(self, workspace: str) -> Paths:
        return resolve_paths(Path(workspace), os.environ)

    async def aclose(self) -> None:
        """Close the sessions that are still open."""
        for owned in self._open.values():
            owned.leave.set()
        for owned in tuple(self._open.values()):
            await owned.ended.wait()


class _Owned:
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


async def _check_there_is(session: str, paths: Paths) -> None:
    """Raise StoreError for a session that there is not."""
    for path in await asyncio.to_thread(_ledgers, paths, only_its_own=True):
        async with await SqliteStore.open(path, read_only=True) as store:
            if any(info.session_id == session for info in await store.sessions()):
                return
    raise StoreError(
        f"there is no session {session!r} in {paths.workspace}",
        hint="open one without a session: it is a new one",
        code="unknown_session",
    )


def _ledgers(paths: Paths, *, only_its_own: bool) -> list[Path]:
    """Return the ledger of the workspace's repository, or those of all, as far as they exist."""
    key = repo_identity(paths.workspace).key if only_its_own else "*"
    ledger = ledger_path(paths, key)
    folder = ledger.parents[1]
    return sorted(folder.glob(str(ledger.relative_to(folder))))


async def _sessions_in(path: Path, state_dir: Path) -> list[Mapping[str, Any]]:
    async with await SqliteStore.open(path, read_only=True) as store:
        rows = await asyncio.to_thread(session_rows, await store.sessions(), state_dir)
        return [{**row, "waits": await _waits(store, row)} for row in rows]


async def _waits(store: Store, row: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return what waits for a person; with its owner a session's requests end."""
    if row["pid"] is None:
        return ()
    requests = await store.open_requests(row["session"])
    agents = await store.agents(row["session"]) if requests else ()
    names = {agent.descriptor.agent_id: agent.descriptor.name for agent in agents}
    return request_rows(requests, names, lambda value: value)


def _log_surprise(name: str, error: Exception) -> None:
    _log.error("%s failed", name, exc_info=error)
