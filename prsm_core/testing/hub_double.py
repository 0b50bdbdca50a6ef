"""ScriptedHub: the sessions that a frontend of many is given, each of which a test plays.

In a test of a frontend::

    hub = ScriptedHub()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(MyFrontend({}).run(hub))
        app = await hub.opened("/work")
        await app.started()
        app.finish()
    assert running.result() == 0
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from prsm_core.errors import ControlError
from prsm_core.interfaces.frontend import RunOptions
from prsm_core.testing.app_double import ScriptedApp

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from prsm_core.interfaces.frontend import AppHandle


class ScriptedHub:
    """Hub whose sessions are ScriptedApps; `faults`, by workspace, is what opening one raises."""

    def __init__(self, options: RunOptions | None = None) -> None:
        self.options = options or RunOptions(workspace="/work")
        self.faults: dict[str, Exception] = {}
        self.apps: list[ScriptedApp] = []  # of all sessions that were opened, in order
        self._owned: dict[str, ScriptedApp] = {}
        self._changed = asyncio.Event()  # set and replaced whenever a session is opened or left

    @property
    def owned(self) -> Sequence[str]:
        """The sessions that are open now, oldest first."""
        return list(self._owned)

    async def opened(self, workspace: str) -> ScriptedApp:
        """Wait until a session of this workspace is open; return the newest."""
        while True:
            for app in reversed(self._owned.values()):
                if app.options.workspace == workspace:
                    return app
            await self._changed.wait()

    @asynccontextmanager
    async def open(self, options: RunOptions) -> AsyncIterator[AppHandle]:
        """Own a session until the context is left, which interrupts what runs; see Hub."""
        if (fault := self.faults.get(options.workspace)) is not None:
            raise fault
        session = options.session or f"session-{len(self.apps) + 1}"
        app = ScriptedApp(replace(options, session=session))
        self.apps.append(app)
        self._owned[session] = app
        self._wake()
        try:
            yield app
        finally:
            await self._close(session)

    @asynccontextmanager
    async def attach(self, session: str) -> AsyncIterator[AppHandle]:
        """Reach a session that is open; see Hub."""
        if session not in self._owned:
            raise ControlError(f"nothing runs in session {session}", code="no_owner")
        yield self._owned[session]

    async def sessions(self, workspace: str | None = None) -> Sequence[Mapping[str, Any]]:
        """Return the sessions that are or were open, newest first; see Hub."""
        rows: list[Mapping[str, Any]] = []
        for app in reversed(self.apps):
            if workspace in {None, app.options.workspace}:
                [row] = await app.sessions()
                is_owned = app.session in self._owned
                waits = list(await app.requests()) if is_owned else []
                rows.append({**row, "waits": waits, **({} if is_owned else {"pid": None})})
        return rows

    async def aclose(self) -> None:
        """Close the sessions that a frontend has left open."""
        for session in self.owned:
            await self._close(session)

    async def _close(self, session: str) -> None:
        app = self._owned.pop(session, None)
        if app is not None:
            await app.close()
            self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
