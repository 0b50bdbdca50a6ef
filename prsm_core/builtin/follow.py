"""What frontends share that follow one run through an AppHandle, up to its last event."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from typing import TYPE_CHECKING

from prsm_core.domain.events import ends_run
from prsm_core.errors import ConfigError, StoreError
from prsm_core.interfaces.frontend import Frontend

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

    from prsm_core.domain.events import Event
    from prsm_core.interfaces.frontend import AppHandle, RunHandle, RunResult
    from prsm_core.interfaces.store import Store

DRAIN_SECONDS = 30.0  # for events that were committed before the result came


class RunFrontend(Frontend):
    """Follows one run, and has the command's stdout for itself."""

    @abstractmethod
    def write_to(self, out: TextIO) -> None:
        """Let results go to this stream, which leads to the command's stdout."""

    @abstractmethod
    async def print_rest(self, store: Store) -> None:
        """Tell what is kept of a run that was interrupted after `run` was cancelled."""


async def start_task(app: AppHandle) -> RunHandle:
    """Start a run of the task the command line gave.

    Raises:
        ConfigError: there is none.
    """
    if not app.options.task:
        raise ConfigError("there is no task to run", hint='give one: prsm run "…"')
    return await app.start_run(app.options.task)


async def follow_run(
    app: AppHandle, run: RunHandle, show: Callable[[Event], None], *, drain_s: float = DRAIN_SECONDS
) -> RunResult:
    """Give the session's events to `show` until the run has ended; `run_finished` is the last.

    Raises:
        StoreError: the run ended, and `run_finished` did not come within `drain_s`.
    """
    async with asyncio.TaskGroup() as group:
        reading = group.create_task(_read(app, run, show), name="follow run")
        result = await run.result()
        await asyncio.wait({reading}, timeout=drain_s)
        complete = reading.done() and reading.result()
        reading.cancel()
    if not complete:
        raise StoreError(
            "the run has ended, but its last events could not be read",
            hint=f"see them with: prsm events {run.session}",
        )
    return result


async def _read(app: AppHandle, run: RunHandle, show: Callable[[Event], None]) -> bool:
    """Return whether the run's end came before the events ended."""
    events = app.events()
    try:
        async for event in events:
            show(event)
            if ends_run(event, run.run_id, run.since):
                return True
    finally:
        close = getattr(events, "aclose", None)  # an iterator need not be a generator
        if close is not None:
            await close()
    return False
