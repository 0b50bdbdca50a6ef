"""The `console` frontend: progress on stderr, the summary on stdout, answers from stdin.

What agents write is escaped, so that it cannot move the cursor, hide text or look like PRSM.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any, TextIO

from prsm_core.builtin.follow import follow_run, start_task
from prsm_core.builtin.liveness import Liveness
from prsm_core.builtin.person import Person, stdin_descriptor
from prsm_core.builtin.render import hanging
from prsm_core.builtin.text import escape_prose, format_duration
from prsm_core.engine.clocks import SystemClock
from prsm_core.interfaces.frontend import Frontend

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prsm_core.builtin.screen import Screen
    from prsm_core.domain.events import Event
    from prsm_core.interfaces.clock import Clock
    from prsm_core.interfaces.frontend import AppHandle, RunHandle, RunResult


class ConsoleFrontend(Frontend):
    """Shows one run and asks the person at the terminal.

    Settings: `interactive` (default true); false leaves every request to the engine.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        *,
        out: TextIO | None = None,
        err: TextIO | None = None,
        stdin: int | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._out = out or sys.stdout
        self._err = err or sys.stderr
        self._stdin = stdin_descriptor() if stdin is None else stdin
        self._interactive = bool(settings.get("interactive", True))
        self._clock = clock or SystemClock()
        self._finished: Mapping[str, Any] = {}

    async def run(self, app: AppHandle) -> int:
        """Start the task, show it, and return the run's exit code."""
        started = self._clock.now()
        person = Person(app, err=self._err, stdin=self._stdin, is_asked=self._interactive)
        try:
            run = await start_task(app)
            result = await self._follow(app, run, person)
        finally:
            person.close()
        took = self._finished.get("duration_s")
        self._conclude(person.screen, result, self._clock.now() - started if took is None else took)
        return result.exit_code

    async def _follow(self, app: AppHandle, run: RunHandle, person: Person) -> RunResult:
        liveness = Liveness(person.screen, self._clock, person.refresh)

        def show(event: Event) -> None:
            if event.run != run.run_id:
                person.renderer.learn(event)
                return
            liveness.note(event)
            if event.type == "run_finished":
                self._finished = event.data
            elif event.seq is not None:
                liveness.printed(person.show(event))

        async with asyncio.TaskGroup() as group:
            helpers = [group.create_task(person.serve()), group.create_task(liveness.watch())]
            result = await follow_run(app, run, show)
            for helper in helpers:
                helper.cancel()
        return result

    def _conclude(self, screen: Screen, result: RunResult, duration_s: float) -> None:
        parts = [
            result.status
            + (f" ({result.evidence})" if result.evidence not in {None, "claimed"} else "")
            + f" in {format_duration(duration_s)}",
            result.spent.text,
        ]
        if result.error:
            screen.print_lines(hanging("error: ", escape_prose(result.error)))
        screen.print_lines([", ".join(parts)])
        if result.summary:
            self._out.write(escape_prose(result.summary).rstrip("\n") + "\n")
            self._out.flush()
