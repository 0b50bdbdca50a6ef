"""The one place that does something with whole sessions, one after the other, as asked for.

It visits one session at a time. What breaks in it is told, and leads back to the list.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from prsm_core import PrsmError
from prsm_core.kit import escape_exact
from prsm_tui.acts import Listening
from prsm_tui.pump import said
from prsm_tui.visit import Showing, Visit

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from prsm_core import Hub

_WAITING = 100  # acts that have not begun


class Hosting(Listening, Showing, Protocol):
    """Who shows the list, and the session that is visited."""

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
        self._queue: asyncio.Queue[Callable[[], Awaitable[None]]] = asyncio.Queue(_WAITING)
        self._visits: asyncio.TaskGroup | None = None
        self._turns = 0  # to another place, that were asked for and are not done
        self._visit: Visit | None = None
        self._visiting: asyncio.Task[None] | None = None

    async def serve(self) -> None:
        """Do what is asked for, until cancelled, which leaves the visit, too."""
        async with asyncio.TaskGroup() as self._visits:
            while True:
                act = await self._queue.get()
                try:
                    await act()
                except PrsmError as error:
                    self._host.told("error", said(error))
                self._host.listed()

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

    def new(self, workspace: str, task: str) -> None:
        """Begin a task in a session of its own, and visit that."""
        self._do(lambda: self._new(workspace, task))

    def resume(self, session: str) -> None:
        """Go on with a run that was cut off."""
        self._do(lambda: self._resume(session))

    def stop(self, session: str) -> None:
        """End the open run of a session as interrupted."""
        self._do(lambda: self._stop(session))

    def rename(self, session: str, name: str) -> None:
        """Give a session a name."""
        self._do(lambda: self._rename(session, name))

    def fork(self, session: str) -> None:
        """Make another session that begins as this one is now."""
        self._do(lambda: self._fork(session))

    def delete(self, session: str) -> None:
        """Delete a session for good."""
        self._do(lambda: self._delete(session))

    def export(self, session: str, output: str) -> None:
        """Write a session to a file, whose ending says in which form."""
        self._do(lambda: self._export(session, output))

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

    def _do(self, act: Callable[[], Awaitable[None]]) -> bool:
        """Have something done; return whether it will be."""
        try:
            self._queue.put_nowait(act)
        except asyncio.QueueFull:
            self._host.told("error", f"not done: {_WAITING} things before it wait already")
            return False
        return True

    async def _open(self, session: str) -> None:
        if self.visited == session or self._visits is None:
            return
        await self._leave()
        visit = Visit(self._hub, session, self._host, self._host, answers=self._answers)
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

    async def _new(self, workspace: str, task: str) -> None:
        options = replace(self._hub.options, workspace=workspace, session=None, task=task)
        try:
            begun = await self._hub.start(options)
        except PrsmError as error:
            self._host.not_begun(task)
            self._host.told("error", f"not begun: {said(error)}")
            return
        session = str(begun["session"])
        self._host.begun(session)
        await self._open(session)

    async def _resume(self, session: str) -> None:
        if self._visit is not None and self._visit.id == session:
            self._visit.resume()
            return
        workspace = await self._workspace(session)
        options = replace(
            self._hub.options, session=session, workspace=workspace, task=None, resumes=True
        )
        begun = await self._hub.start(options)
        notes = [escape_exact(str(note)) for note in begun.get("notes") or ()]
        self._host.told("info", "  ".join(notes) or "it goes on")

    async def _stop(self, session: str) -> None:
        async with self._hub.attach(session) as app:
            stopped = await app.interrupt_run()
        self._host.told("info", "the run is interrupted" if stopped else "no run is open")

    async def _rename(self, session: str, name: str) -> None:
        await self._hub.rename(session, name)
        said_of = (
            f"it is called {escape_exact(name.strip())}" if name.strip() else "its name is gone"
        )
        self._host.told("info", said_of)

    async def _fork(self, session: str) -> None:
        fork = escape_exact(await self._hub.fork(session))
        self._host.told("info", f"forked as session {fork}; it shares the files of the folder")

    async def _delete(self, session: str) -> None:
        if self.visited == session:
            await self._leave()
        await self._hub.delete(session)
        self._host.told("info", f"deleted: {session}")

    async def _export(self, session: str, output: str) -> None:
        ending = output.rpartition(".")[2]
        form = ending if ending in {"jsonl", "html"} else "json"
        path = await self._hub.export(session, output, form)
        self._host.told("info", f"written: {escape_exact(path)}")

    async def _workspace(self, session: str) -> str:
        rows = await self._hub.sessions()
        found = (str(row["workspace"]) for row in rows if row["session"] == session)
        return next(found, self._hub.options.workspace)


def _leaf(error: BaseException) -> Exception:
    """Return the first error of a group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error if isinstance(error, Exception) else RuntimeError(str(error))
