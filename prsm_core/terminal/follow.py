"""What frontends share that follow one run through an AppHandle, up to its last event."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from typing import TYPE_CHECKING

from prsm_core.domain.events import Event, ends_run
from prsm_core.errors import ConfigError, StoreError
from prsm_core.interfaces.frontend import AppHandle, Frontend, RunHandle, RunResult
from prsm_core.loop.output import hurry_output, room_in

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TextIO

    from prsm_core.interfaces.store import Store
    from prsm_core.terminal.owner import SessionOwner

DRAIN_SECONDS = 30.0  # for events that were committed before the result came


class RunFrontend(Frontend):
    """Follows one run, and has the command's stdout for itself."""

    @abstractmethod
    def write_to(self, out: TextIO) -> None:
        """Let results go to this stream, which leads to the command's stdout."""

    @abstractmethod
    async def print_rest(self, store: Store) -> None:
        """Tell what is kept of a run that was interrupted after `run` was cancelled."""


class AttachableFrontend(RunFrontend):
    """Shows also a session that another process runs."""

    @abstractmethod
    async def attach(self, owner: SessionOwner) -> int:
        """Show the session and put its requests to the person, until it ends or they leave.

        Returns the exit code of the last ended run, 0 for a person who leaves before, and 1 if the
        session's process died.
        """


async def start_task(app: AppHandle) -> RunHandle:
    """Start a run of the task the command line gave."""
    if not app.options.task:
        raise ConfigError("there is no task to run", hint='give one: prsm run "…"')
    return await app.runs.start(app.options.task)


async def follow_run(
    app: AppHandle, run: RunHandle, show: Callable[[Event], None], *outs: TextIO
) -> RunResult:
    """Give the session's events to `show` until the run has ended; `run_finished` is the last.

    Reading pauses while `outs`, to which `show` writes, are full; the run goes on, and live events
    are dropped. Once it is over a terminal that takes nothing is given up.

    Raises:
        StoreError: the run ended, and not even `run_finished` came for a while.
        OSError: one of `outs` cannot be written.
    """
    reader = _Reader(app, run, show, outs)
    async with asyncio.TaskGroup() as group:
        reading = group.create_task(reader.read(), name="follow run")
        result = await run.result()
        hurry_output()
        while not reading.done():
            count = reader.count
            await asyncio.wait({reading}, timeout=DRAIN_SECONDS)
            if reader.count == count and not reader.waits_for_room:
                break
        complete = reading.done() and reading.result()
        reading.cancel()
    if not complete:
        raise StoreError(
            "the run has ended, but its last events could not be read",
            hint=f"see them with: prsm events {run.session}",
        )
    return result


class _Reader:
    def __init__(
        self, app: AppHandle, run: RunHandle, show: Callable[[Event], None], outs: Sequence[TextIO]
    ) -> None:
        self._app, self._run, self._show, self._outs = app, run, show, outs
        self.count = 0  # events that were shown
        self.waits_for_room = False

    async def read(self) -> bool:
        """Return whether the run's end came before the events ended."""
        events = self._app.events()
        try:
            async for event in events:
                self._show(event)
                self.count += 1
                await self._room()
                if ends_run(event, self._run.run_id, self._run.since):
                    return True
        finally:
            close = getattr(events, "aclose", None)  # an iterator need not be a generator
            if close is not None:
                await close()
        return False

    async def _room(self) -> None:
        self.waits_for_room = True
        await room_in(*self._outs)
        self.waits_for_room = False
