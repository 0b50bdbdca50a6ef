"""The `json` frontend: one committed event a line on stdout, for programs."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, TextIO

from prsm_core.builtin.follow import follow_run, start_task
from prsm_core.interfaces.frontend import Frontend

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prsm_core.domain.events import Event
    from prsm_core.interfaces.frontend import AppHandle


class JsonFrontend(Frontend):
    """Prints the run's event envelopes as ASCII JSON; live deltas are left out.

    Nobody can be asked: permission requests are denied or answered by `--on-ask`.
    """

    def __init__(self, settings: Mapping[str, Any], *, out: TextIO | None = None) -> None:
        self._out = out or sys.stdout

    async def run(self, app: AppHandle) -> int:
        """Start the task and print until `run_finished`, which is the last line."""
        run = await start_task(app)

        def show(event: Event) -> None:
            if event.seq is not None and event.run == run.run_id:
                self._out.write(json.dumps(event.to_dict()) + "\n")
                self._out.flush()

        return (await follow_run(app, run, show)).exit_code
