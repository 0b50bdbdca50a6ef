"""Many sessions in one process: each is composed for its own workspace, in a task of its own.

So a session may be opened in one task and left in another, and whatever breaks in one is told to
whoever opened it and cancels nobody else.
"""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from msgspec.structs import replace

from prsm_core.app import open_app
from prsm_core.config import resolve_paths
from prsm_core.domain.ids import Ids
from prsm_core.engine.control.remote import open_remote
from prsm_core.engine.door.refusals import known_mode
from prsm_core.errors import PrsmError
from prsm_core.hub.ledgers import find_session, fork, ledgers, peek, rename, sessions_in
from prsm_core.hub.owned import Owned
from prsm_core.kit.arguments import takes_checked
from prsm_core.kit.background import Background
from prsm_core.kit.clocks import SystemClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from prsm_core.config import Paths, Settings
    from prsm_core.config.snapshot import Snapshot
    from prsm_core.hub.errands import Errands
    from prsm_core.hub.ledgers import Found
    from prsm_core.interfaces.frontend import AppHandle, FrontendSpec, RunOptions
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
        state = self._paths(self.options.workspace).state
        async with open_remote(state, session, via=f"prsm {self._frontend.name}") as app:
            yield app

    async def sessions(self, workspace: str | None = None) -> Sequence[Mapping[str, Any]]:
        """Return the sessions of a repository or of all, newest first; see Hub."""
        paths = self._paths(workspace or self.options.workspace)
        found = await asyncio.to_thread(ledgers, paths, only_its_own=workspace is not None)
        rows: list[Mapping[str, Any]] = []
        for path in found:
            try:
                rows += await sessions_in(path, paths.state)
            except PrsmError as error:
                _log.warning("the sessions in %s are not listed", path, exc_info=error)
        return sorted(rows, key=lambda row: (row["started_at"], row["session"]), reverse=True)

    async def start(self, options: RunOptions) -> Mapping[str, Any]:
        """Begin a run in a process of its own; see Hub."""
        return await self._errands.start(replace(options, mode=known_mode(options.mode)))

    async def peek(self, session: str, limit: int = 20) -> Sequence[Mapping[str, Any]]:
        """Return what a session's master did last; see Hub."""
        return await peek(await self._find(session), limit)

    async def rename(self, session: str, name: str) -> None:
        """Give a session a name; see Hub."""
        await rename(await self._find(session), name)

    async def fork(self, session: str, at: int | None = None) -> str:
        """Make another session that begins as one was; see Hub."""
        return await fork(await self._find(session), at)

    async def delete(self, session: str) -> None:
        """Delete a session for good; see Hub."""
        await self._errands.delete((await self._find(session)).ledger, session)

    async def export(self, session: str, output: str, form: str = "json") -> str:
        """Write a session to a file; see Hub."""
        ledger = (await self._find(session)).ledger
        return str(await self._errands.export(ledger, session, Path(output), form))

    async def _find(self, session: str) -> Found:
        return await find_session(session, self._paths(self.options.workspace))

    def _paths(self, workspace: str) -> Paths:
        return resolve_paths(Path(workspace), os.environ)

    async def aclose(self) -> None:
        """Close the sessions that are still open."""
        for owned in self._open.values():
            owned.leave.set()
        for owned in tuple(self._open.values()):
            await owned.ended.wait()


def _log_surprise(name: str, error: Exception) -> None:
    _log.error("%s failed", name, exc_info=error)
