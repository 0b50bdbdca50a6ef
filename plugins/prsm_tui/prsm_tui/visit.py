"""One session that a person looks at: the door to it, whoever owns it now, and what runs beside.

A run is owned by a process of its own, which ends with it. So the door changes while somebody
looks: it leads to that process while there is one, else the session is opened here, which is what
it takes to accept changes or to fork. Before a run begins elsewhere what is open here is left.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol

from msgspec.structs import replace

from prsm_core import ConfigError, ControlError, PrsmError, SessionOwnedError
from prsm_tui.acts import Acts
from prsm_tui.model.session import Session
from prsm_tui.pump import Pump, said

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from prsm_core import AppHandle, Hub, RunOptions
    from prsm_tui.acts import Listening

_TRIES = 20  # how often a door may be found closed that was open a moment ago
_PAUSE_SECONDS = 0.1  # between two of them


class Showing(Protocol):
    """Who shows the session."""

    def enter(self, session: Session, acts: Acts) -> None:
        """Show a session, or another picture of the one that is shown."""

    def changed(self) -> None:
        """Hear that the session has changed."""


class Visit:
    """Owns the door to one session, until it is left."""

    def __init__(
        self, hub: Hub, session: str, shows: Showing, listener: Listening, *, answers: bool
    ) -> None:
        self.id = session
        self._hub = hub
        self._shows = shows
        self._tell = listener
        self._answers = answers
        self._options = hub.options  # of its workspace, once that is known
        self._status = ""  # of its newest run, when the door was looked for
        self._session: Session | None = None
        self._acts: Acts | None = None
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
            async with self._door() as app:
                self._look_through(app, await app.view() if self._is_torn else None)
                if self._why_cut:
                    self._tell.told("error", self._why_cut)
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

    def _look_through(self, app: AppHandle, view: Mapping[str, Any] | None) -> None:
        """Show the session anew, or go on with what is shown."""
        if view is None and self._acts is not None:
            self._acts.turn_to(app)
            return
        self._session = session = Session.of_view(view or {}, time.time())
        if session.run is not None and session.run.is_open and self._status != "running":
            session.run.status = self._status  # nobody runs it any more, nor waits for answers
            session.requests.clear()
        self._acts = Acts(app, session, self._tell, starts=self)
        self._acts.looks.owns = False  # runs that begin here have a process of their own
        self._shows.enter(session, self._acts)

    async def _stay(self, app: AppHandle) -> str:
        """Keep the picture and do what is asked for, until the door closes or is to be left.

        Returns what is to be said where the owner has gone before its run had ended.
        """
        session, acts = self._session, self._acts
        assert session is not None and acts is not None  # noqa: S101, PT018 - it was looked through
        pump = Pump(app, session, self._shows.changed)
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
        self._tell.told("info", "it begins in a process of its own")
        try:
            begun = await self._hub.start(options)
        except PrsmError as error:
            if options.task:
                self._tell.unsent(None, options.task)
            if self._session is not None:
                self._session.images = options.images
            self._tell.told("error", f"not begun: {said(error)}")
            return
        self._tell.told("info", "  ".join(map(str, begun.get("notes") or ())))

    def _want(self, **others: Any) -> None:
        self._wanted = replace(self._options, **others)
        self._turned.set()

    @asynccontextmanager
    async def _door(self) -> AsyncIterator[AppHandle]:
        """Reach the session at its owner, or open it here where it has none."""
        async with AsyncExitStack() as stack:
            yield await self._enter(stack)

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
        """Look who owns the session; raises ConfigError where it is gone."""
        rows = await self._hub.sessions()
        row = next((row for row in rows if row["session"] == self.id), None)
        if row is None:
            raise ConfigError(f"there is no session {self.id} any more")
        self._status = str(row.get("status"))
        self._options = replace(
            self._hub.options, session=self.id, task=None, workspace=str(row["workspace"])
        )
        if row.get("pid") is None:
            return self._hub.open(self._options)
        return self._hub.attach(self.id)
