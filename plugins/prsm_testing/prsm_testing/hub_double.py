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
import json
from contextlib import asynccontextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from msgspec.structs import asdict, replace

from prsm_core.door import DetachedRun, HubSession
from prsm_core.engine.door.looking import ReadOnlyApp
from prsm_core.engine.door.naming import checked_name
from prsm_core.errors import ConfigError, ControlError, SessionOwnedError, StoreError
from prsm_core.interfaces.app_handle import (
    METHODS,
    Agents,
    Changes,
    Requests,
    Runs,
    Sessions,
    Snapshots,
    derive,
    operation_name,
)
from prsm_core.interfaces.frontend import RunOptions
from prsm_core.kit.arguments import takes_checked
from prsm_testing.app_double import ScriptedApp

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence

    from prsm_core.domain.events import Event
    from prsm_core.door import HistoryEntry, View
    from prsm_core.interfaces.frontend import AppHandle
    from prsm_testing.app_double import ScriptedRun

_FINISHED = frozenset({"completed", "failed", "killed"})
_FORMS = ("json", "jsonl", "html")


@takes_checked
class ScriptedHub:
    """Hub whose sessions are ScriptedApps; `faults`, by workspace, is what opening one raises.

    A session that `start` has begun is owned, as by another process, until its run has ended, or
    `idle` says that nobody asks it anything.
    """

    def __init__(self, options: RunOptions | None = None) -> None:
        self.options = options or RunOptions(workspace="/work")
        self.faults: dict[str, Exception] = {}
        self.apps: list[ScriptedApp] = []  # of all sessions that were opened, in order
        self.owner_pid = 4242  # of the process that owns what was started
        self._owned: dict[str, ScriptedApp] = {}
        self._detached: set[str] = set()
        self._names: dict[str, str | None] = {}
        self._origins: dict[str, str] = {}
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
        app = self._own(options)
        try:
            yield app
        finally:
            await self._close(app.session)

    @asynccontextmanager
    async def attach(self, session: str) -> AsyncIterator[AppHandle]:
        if session not in self._owned:
            raise ControlError(f"nothing runs in session {session}", code="no_owner")
        yield self._owned[session]

    @asynccontextmanager
    async def look(self, session: str) -> AsyncIterator[AppHandle]:
        """Look at a session that is not open; see Hub."""
        app = self._find(session)
        if session in self._owned:
            raise SessionOwnedError(f"session {session} is owned", hint="attach to it")
        yield LookedAt(app)

    async def sessions(self, workspace: str | None = None) -> Sequence[HubSession]:
        found = [app for app in self.apps if workspace in {None, app.options.workspace}]
        return [await self._row(app) for app in reversed(found)]

    async def start(self, options: RunOptions) -> DetachedRun:
        """Begin a run whose session stays owned until its end; see Hub."""
        before = self._known(options.session)
        if options.session is not None and before is None:
            raise _unknown(options.session)
        if options.resumes and before is not None and _is_finished(before):
            raise ConfigError("the run is finished", code="finished")
        is_served = options.task is None and not options.resumes and not options.continues
        if is_served and before is None:
            raise ConfigError("there is neither a task nor a session", code="no_task")
        app = self._own(options)
        self._detached.add(app.session)
        app.on_run = lambda run: run.ended.add_done_callback(lambda _: self._owner_ends(app, run))
        pid = self.owner_pid
        if is_served:
            return DetachedRun(session=app.session, run=None, pid=pid)
        try:
            if options.resumes:
                begun = await app.runs.resume()
            elif options.continues:
                begun = await app.runs.follow_up(options.task or "", options.images)
            else:
                begun = await app.runs.start(options.task or "")
        except BaseException:
            await self._close(app.session)
            raise
        return DetachedRun(session=app.session, run=begun.run_id, pid=pid)

    async def idle(self, session: str) -> None:
        """Let the time pass after which the owner of a session ends that nobody asks anything."""
        app = self._owned[session]
        if session in self._detached and not app.has_open_run:
            self._end(app)

    async def peek(self, session: str, limit: int = 20) -> Sequence[HistoryEntry]:
        app = self._find(session)
        masters = (await app.agents.tree()).agents
        return await app.agents.history(masters[-1].id, limit=limit) if masters else ()

    async def rename(self, session: str, name: str) -> None:
        self._find(session)
        self._names[session] = checked_name(name)

    async def fork(self, session: str, at: int | None = None) -> str:
        app = self._find(session)
        if app.run is None:
            raise _unknown(session)
        fork = await app.sessions.fork(at)
        copy = ScriptedApp(replace(app.options, session=fork))
        await copy.take_over(app, at)
        self.apps.append(copy)
        self._origins[fork] = session
        return fork

    async def delete(self, session: str) -> None:
        app = self._find(session)
        if session in self._owned:
            raise SessionOwnedError(f"session {session} is owned", hint="end it first")
        self.apps.remove(app)

    async def export(self, session: str, output: str, form: str = "json") -> str:
        """Write the events of a session, whatever the form; see Hub."""
        app = self._find(session)
        if form not in _FORMS:
            raise ConfigError(f"there is no form {form!r}")
        return _write(app, Path(output), form)

    async def aclose(self) -> None:
        """Close the sessions that a frontend has left open, and those that run by themselves."""
        for session in self.owned:
            await self._close(session)

    def _own(self, options: RunOptions) -> ScriptedApp:
        """Open a session, one that was open before with what it had."""
        if (fault := self.faults.get(options.workspace)) is not None:
            raise fault
        session = options.session or f"session-{len(self.apps) + 1}"
        if session in self._owned:
            raise SessionOwnedError(f"session {session} is owned", hint="attach to it")
        options = replace(options, session=session)
        app = self._known(session)
        if app is None:
            app = ScriptedApp(options)
            self.apps.append(app)
        else:
            app.reopen(options)
        self._owned[session] = app
        self._wake()
        return app

    def _known(self, session: str | None) -> ScriptedApp | None:
        return next((app for app in self.apps if app.session == session), None)

    def _find(self, session: str) -> ScriptedApp:
        app = self._known(session)
        if app is None:
            raise _unknown(session)
        if app.run is None and session in self._owned:
            raise SessionOwnedError(f"session {session} is owned, and has had no run yet")
        return app

    async def _row(self, app: ScriptedApp) -> HubSession:
        session, is_owned = app.session, app.session in self._owned
        row = next(row for row in await app.sessions.list() if row.session == session)
        pid = self.owner_pid if session in self._detached else row.pid
        now = replace(
            row,
            name=self._names.get(session),
            origin=self._origins.get(session),
            pid=pid if is_owned else None,
            status=row.status if is_owned or not app.has_open_run else "interrupted",
        )
        waits = tuple(await app.requests.open()) if is_owned else ()
        return HubSession(**asdict(now), waits=waits)

    async def _close(self, session: str) -> None:
        app = self._owned.get(session)
        if app is not None:
            await app.close()
            self._end(app)

    def _owner_ends(self, app: ScriptedApp, run: ScriptedRun) -> None:
        if app.run is run and app.session in self._detached:
            self._end(app)

    def _end(self, app: ScriptedApp) -> None:
        """Let go of a session, whose readers have read all; its owner has ended."""
        if self._owned.get(app.session) is app:
            del self._owned[app.session]
            self._detached.discard(app.session)
            app.hang_up()
            self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


@takes_checked
class LookedAt(ReadOnlyApp):
    """AppHandle that tells what a ScriptedApp does, and refuses each act."""

    def __init__(self, app: ScriptedApp) -> None:
        self.options = app.options
        self._app = app
        self.runs: Runs = self._readable(Runs, app.runs)
        self.agents: Agents = self._readable(Agents, app.agents)
        self.requests: Requests = self._readable(Requests, app.requests)
        self.changes: Changes = self._readable(Changes, app.changes)
        self.snapshots: Snapshots = self._readable(Snapshots, app.snapshots)
        self.sessions: Sessions = self._readable(Sessions, app.sessions)

    def _readable(self, kind: Any, group: object) -> Any:
        """Return a group of which the methods tell what those of another do, unless they act."""

        def make(method: Callable[..., Any]) -> Callable[..., Any]:
            _, may = METHODS.get(operation_name(method), (method, "acts"))

            @wraps(method)
            async def tell(_: object, *args: Any, **more: Any) -> Any:
                if may == "acts":
                    self.refuse()
                return await getattr(group, method.__name__)(*args, **more)

            return tell

        return derive(kind, make)()

    def refuse(self) -> NoReturn:
        """Raise ControlError: nobody owns the session."""
        raise ControlError(
            f"nobody runs session {self._app.session}", hint="open it", code="no_owner"
        )

    async def events(self, after: int = 0) -> AsyncGenerator[Event, None]:
        """Yield the committed events after `after`, and no more."""
        for event in self._app.said:
            if (event.seq or 0) > after:
                yield event

    async def view(self) -> View:
        """Return what was said as one picture."""
        return await self._app.view()


def _write(app: ScriptedApp, path: Path, form: str) -> str:
    path = path / f"{app.session}.{form}" if path.is_dir() else path
    events = [event.to_dict() for event in app.said]
    try:
        path.write_text(json.dumps({"session": {"id": app.session}, "events": events}))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror}") from error
    return str(path)


def _is_finished(app: ScriptedApp) -> bool:
    ended = None if app.run is None else app.run.ended
    if ended is None or not ended.done() or ended.exception() is not None:
        return False
    return ended.result().status in _FINISHED


def _unknown(session: str) -> StoreError:
    return StoreError(f"there is no session {session!r}", code="unknown_session")
