"""Act on whole sessions, one act after the other, and visit one of them at a time.

A run is owned by a process of its own, which ends with it. So the door to a session changes during
a visit. It leads to that process while there is one. Otherwise the session is opened here, which
it takes to accept changes or to fork, and left again before a run begins elsewhere.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Protocol

from msgspec.structs import replace

from prsm_core import ConfigError, ControlError, PrsmError, SessionOwnedError
from prsm_core.kit import escape_exact
from prsm_tui.acts import Acts, Listening
from prsm_tui.model.session import Session
from prsm_tui.pump import Pump, said
from prsm_tui.queue import ActQueue, in_order

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from prsm_core import AppHandle, Hub, RunOptions
    from prsm_core.door import View

_TRIES = 20  # how often a door may be found closed that was open a moment ago
_PAUSE_SECONDS = 0.1  # between two of them


class Visit:
    """Owns the door to one session, until it is left."""

    def __init__(self, hub: Hub, session: str, host: Hosting, *, answers: bool) -> None:
        self.id = session
        self._hub, self._host, self._answers = hub, host, answers
        self._options = hub.options  # of its workspace, once that is known
        self._status = ""  # of its newest run, when the door was looked for
        self._session: Session | None = None
        self._acts: Acts  # of the session, once it is known
        self._why_cut = ""
        self._wanted: RunOptions | None = None  # the run that is to begin
        self._turned = asyncio.Event()  # one is, so the door is to be left

    def begin(
        self,
        task: str,
        *,
        continues: bool,
        provider: str | None = None,
        model: str | None = None,
        images: Sequence[str] = (),
    ) -> None:
        """Begin a task in this session, or give its last master a further one."""
        chosen = {"provider": provider, "model": model} if model else {}
        self._want(task=task, continues=continues, images=tuple(images), **chosen)

    def resume(self) -> None:
        """Go on with the run that was cut off."""
        self._want(task=None, resumes=True)

    async def run(self) -> None:
        """Show the session until cancelled; raises what keeps it from being opened."""
        while True:
            async with AsyncExitStack() as stack:
                app = await self._enter(stack)
                if self._is_torn:
                    self._look_through(app, await app.view())
                else:
                    self._acts.turn_to(app)
                if self._why_cut:
                    self._host.told("error", self._why_cut)
                self._why_cut = await self._stay(app)
            if self._wanted is not None:
                await self._begin(self._wanted)
                self._wanted = None
                self._turned.clear()

    @property
    def _is_torn(self) -> bool:
        """Whether what is known is no picture to go on from.

        There is none, or its run was cut off: its agents go on from where the ledger has them.
        """
        run = None if self._session is None else self._session.run
        return run is None or run.is_open or run.status == "interrupted"

    def _look_through(self, app: AppHandle, view: View) -> None:
        self._session = session = Session.of_view(view, time.time())
        if session.run is not None and session.run.is_open and self._status != "running":
            session.run.status = self._status  # nobody runs it any more, nor waits for answers
            session.requests.clear()
        self._acts = Acts(app, session, self._host, starts=self)
        self._acts.looks.owns = False  # runs that begin here have a process of their own
        self._host.enter(session, self._acts)

    async def _stay(self, app: AppHandle) -> str:
        """Keep the picture and do what is asked for, until the door closes or is to be left.

        Returns what is to be said where the owner has gone before its run had ended.
        """
        session, acts = self._session, self._acts
        assert session is not None  # noqa: S101 - it was looked through
        pump = Pump(app, session, self._host.changed)
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(pump.read())
            turned = group.create_task(self._turned.wait())
            beside = [group.create_task(work()) for work in (pump.keep_spent, acts.serve)]
            if self._answers:
                beside.append(group.create_task(pump.attend()))
            await asyncio.wait({reading, turned}, return_when=asyncio.FIRST_COMPLETED)
            why = reading.result() if reading.done() else ""
            for task in (reading, turned, *beside):
                task.cancel()
        is_cut = bool(why) and session.run is not None and session.run.is_open
        return f"the run was cut off: {why}; /resume goes on with it" if is_cut else ""

    async def _begin(self, options: RunOptions) -> None:
        """Begin the run in a process of its own; what cannot begin comes back to be typed."""
        self._host.told("info", "it begins in a process of its own")
        try:
            begun = await self._hub.start(options)
        except PrsmError as error:
            if options.task:
                self._host.unsent(None, options.task)
            if self._session is not None:
                self._session.images = options.images
            self._host.told("error", f"not begun: {said(error)}")
            return
        self._host.told("info", "  ".join(begun.notes))

    def _want(self, **others: Any) -> None:
        self._wanted = replace(self._options, **others)
        self._turned.set()

    async def _enter(self, stack: AsyncExitStack, tries: int = _TRIES) -> AppHandle:
        """Go through the door, and look again where the session has changed hands just now."""
        while True:
            try:
                return await stack.enter_async_context(await self._next_door())
            except (ControlError, SessionOwnedError):
                tries -= 1
                if not tries:
                    raise
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _next_door(self) -> AbstractAsyncContextManager[AppHandle]:
        """Return the door to the session's owner, or one that opens it here where it has none.

        Raises ConfigError where the session is gone.
        """
        rows = await self._hub.sessions()
        row = next((row for row in rows if row.session == self.id), None)
        if row is None:
            raise ConfigError(f"there is no session {self.id} any more")
        self._status = str(row.status)
        self._options = replace(
            self._hub.options, session=self.id, task=None, workspace=row.workspace
        )
        if row.pid is None:
            return self._hub.open(self._options)
        return self._hub.attach(self.id)


class Hosting(Listening, Protocol):
    """Who shows the list, and the session that is visited."""

    def enter(self, session: Session, acts: Acts) -> None:
        """Show a session, or another picture of the one that is shown."""

    def begun(self, session: str) -> None:
        """Hear that a task that was typed for a new session has begun."""

    def not_begun(self, task: str) -> None:
        """Hear that it has not."""

    def left(self) -> None:
        """Show the list again: nothing is visited."""

    def listed(self) -> None:
        """Hear that the list may be another one."""


class HubActs:
    """Owns what is done with sessions, and the visit to one of them."""

    def __init__(self, hub: Hub, host: Hosting, *, answers: bool) -> None:
        self._hub = hub
        self._host = host
        self._answers = answers
        self._queue = ActQueue(host.told)
        self._do = self._queue.put
        self._visits: asyncio.TaskGroup | None = None
        self._turns = 0  # to another place, that were asked for and are not done
        self._visit: Visit | None = None
        self._visiting: asyncio.Task[None] | None = None

    async def serve(self) -> None:
        """Do what is asked for, until cancelled, which leaves the visit, too."""
        async with asyncio.TaskGroup() as self._visits:
            await self._queue.serve(self._host.listed)

    @property
    def visited(self) -> str | None:
        """The session that is visited."""
        return None if self._visit is None else self._visit.id

    def open(self, session: str) -> None:
        """Visit a session, and leave the one before."""
        self._turn(lambda: self._open(session))

    def then(self, do: Callable[[], object]) -> None:
        """Do something once all that was asked for is done."""

        async def act() -> None:
            _ = do()

        self._do(act)

    def leave(self) -> None:
        """Leave the session that is visited; what runs in it goes on."""
        self._turn(self._leave)

    @property
    def is_turning(self) -> bool:
        """Whether another place is on its way: what is typed now would reach nobody."""
        return self._turns > 0

    def _turn(self, act: Callable[[], Awaitable[None]]) -> None:
        async def turn() -> None:
            try:
                await act()
            finally:
                self._turns -= 1

        self._turns += self._do(turn)

    async def _open(self, session: str) -> None:
        if self.visited == session or self._visits is None:
            return
        await self._leave()
        visit = Visit(self._hub, session, self._host, answers=self._answers)
        self._visit = visit
        self._visiting = self._visits.create_task(self._run(visit), name=f"visit {session}")

    async def _run(self, visit: Visit) -> None:
        """Run a visit; what breaks in it is shown, and ends nothing else."""
        try:
            await visit.run()
        except Exception as error:  # noqa: BLE001 - told; the other sessions are not its business
            if self._visit is visit:
                self._visit = self._visiting = None
                self._host.left()
            self._host.told("error", f"session {visit.id}: {said(_leaf(error))}")

    async def _leave(self) -> None:
        task, self._visit, self._visiting = self._visiting, None, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})
            self._host.left()

    @in_order
    async def new(self, workspace: str, task: str) -> None:
        """Begin a task in a session of its own, and visit that."""
        options = replace(self._hub.options, workspace=workspace, session=None, task=task)
        try:
            begun = await self._hub.start(options)
        except PrsmError as error:
            self._host.not_begun(task)
            self._host.told("error", f"not begun: {said(error)}")
            return
        session = begun.session
        self._host.begun(session)
        await self._open(session)

    @in_order
    async def resume(self, session: str) -> None:
        """Go on with a run that was cut off."""
        if self._visit is not None and self._visit.id == session:
            self._visit.resume()
            return
        workspace = await self._workspace(session)
        options = replace(
            self._hub.options, session=session, workspace=workspace, task=None, resumes=True
        )
        begun = await self._hub.start(options)
        self._host.told("info", "  ".join(map(escape_exact, begun.notes)) or "it goes on")

    @in_order
    async def stop(self, session: str) -> None:
        """End the open run of a session as interrupted."""
        async with self._hub.attach(session) as app:
            stopped = await app.runs.interrupt()
        self._host.told("info", "the run is interrupted" if stopped else "no run is open")

    @in_order
    async def rename(self, session: str, name: str) -> None:
        """Give a session a name."""
        await self._hub.rename(session, name)
        shown = escape_exact(name.strip())
        self._host.told("info", f"it is called {shown}" if shown else "its name is gone")

    @in_order
    async def fork(self, session: str) -> None:
        """Make another session that begins as this one is now."""
        fork = escape_exact(await self._hub.fork(session))
        self._host.told("info", f"forked as session {fork}; it shares the files of the folder")

    @in_order
    async def delete(self, session: str) -> None:
        """Delete a session for good."""
        if self.visited == session:
            await self._leave()
        await self._hub.delete(session)
        self._host.told("info", f"deleted: {session}")

    @in_order
    async def export(self, session: str, output: str) -> None:
        """Write a session to a file, whose ending says in which form."""
        ending = output.rpartition(".")[2]
        form = ending if ending in {"jsonl", "html"} else "json"
        path = await self._hub.export(session, output, form)
        self._host.told("info", f"written: {escape_exact(path)}")

    async def _workspace(self, session: str) -> str:
        rows = await self._hub.sessions()
        found = (row.workspace for row in rows if row.session == session)
        return next(found, self._hub.options.workspace)


def _leaf(error: BaseException) -> Exception:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error if isinstance(error, Exception) else RuntimeError(str(error))
