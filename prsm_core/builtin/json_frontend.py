"""The `json` frontend: one committed event a line on stdout, for programs."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, TextIO

from prsm_core.loop.output import drained, room_in
from prsm_core.terminal.follow import RunFrontend, follow_run, start_task

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prsm_core.domain.events import Event
    from prsm_core.interfaces.frontend import AppHandle, RunHandle
    from prsm_core.interfaces.store import Store


class JsonFrontend(RunFrontend):
    """Prints the run's event envelopes as ASCII JSON, without live deltas. Nobody can be asked."""

    def __init__(self, settings: Mapping[str, Any], *, out: TextIO | None = None) -> None:
        self._out = out or sys.stdout
        self._run: RunHandle | None = None
        self._last_seq = 0

    def write_to(self, out: TextIO) -> None:
        """Let results go to this stream, which leads to the command's stdout."""
        self._out = out

    async def run(self, app: AppHandle) -> int:
        """Start the task and print until `run_finished`, which is the last line."""
        self._run = await start_task(app)
        result = await follow_run(app, self._run, self._show, self._out)
        await drained(self._out)
        return result.exit_code

    async def print_rest(self, store: Store) -> None:
        """Print what an interrupted run committed after `run` was cancelled."""
        if self._run is not None:
            async for event in store.events(self._run.session, self._last_seq):
                self._show(event)
                await room_in(self._out)
            await drained(self._out)

    def _show(self, event: Event) -> None:
        if event.seq is None or self._run is None or event.run != self._run.run_id:
            return
        self._last_seq = event.seq
        self._out.write(json.dumps(event.to_dict()) + "\n")
        self._out.flush()
