"""The `console` frontend: progress on stderr, the summary on stdout, answers from stdin.

What agents write is escaped, so that it cannot move the cursor, hide text or look like PRSM.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Any, TextIO

from prsm_core.builtin.asking import Desk
from prsm_core.builtin.follow import follow_run, start_task
from prsm_core.builtin.lines import LineReader
from prsm_core.builtin.liveness import Liveness
from prsm_core.builtin.render import Ink, Renderer, hanging
from prsm_core.builtin.screen import Screen
from prsm_core.builtin.text import escape_prose, format_duration
from prsm_core.engine.clocks import SystemClock
from prsm_core.interfaces.frontend import Frontend

if TYPE_CHECKING:
    from collections.abc import Mapping

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
        err = err or sys.stderr
        is_terminal = err.isatty()
        plain = not is_terminal or "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
        self._interactive = bool(settings.get("interactive", True))
        self._clock = clock or SystemClock()
        self._screen = Screen(err, is_terminal=is_terminal)
        self._renderer = Renderer(Ink(not plain))
        self._reader = LineReader(_stdin_descriptor() if stdin is None else stdin)
        self._finished: Mapping[str, Any] = {}

    async def run(self, app: AppHandle) -> int:
        """Start the task, show it, and return the run's exit code."""
        started = self._clock.now()
        run = await start_task(app)
        try:
            result = await self._follow(app, run)
        finally:
            self._screen.close()
        took = self._finished.get("duration_s")
        self._conclude(result, self._clock.now() - started if took is None else took)
        return result.exit_code

    async def _follow(self, app: AppHandle, run: RunHandle) -> RunResult:
        desk = Desk(app, self._reader, self._screen, self._renderer.lines)
        liveness = Liveness(self._screen, self._clock)

        def show(event: Event) -> None:
            if event.run != run.run_id:
                self._renderer.learn(event)
                return
            liveness.note(event)
            if event.type == "run_finished":
                self._finished = event.data
            elif event.seq is not None and not (self._interactive and desk.note(event)):
                lines = self._renderer.lines(event)
                self._screen.print_lines(lines)
                liveness.printed(bool(lines))

        async with asyncio.TaskGroup() as group:
            helpers = [group.create_task(desk.serve()), group.create_task(liveness.watch())]
            result = await follow_run(app, run, show)
            for helper in helpers:
                helper.cancel()
        return result

    def _conclude(self, result: RunResult, duration_s: float) -> None:
        parts = [
            result.status
            + (f" ({result.evidence})" if result.evidence not in {None, "claimed"} else "")
            + f" in {format_duration(duration_s)}",
            result.spent.text,
        ]
        if result.error:
            self._screen.print_lines(hanging("error: ", escape_prose(result.error)))
        self._screen.print_lines([", ".join(parts)])
        if result.summary:
            self._out.write(escape_prose(result.summary).rstrip("\n") + "\n")
            self._out.flush()


def _stdin_descriptor() -> int | None:
    """Return the descriptor of stdin, None where the process has none."""
    try:
        return sys.stdin.fileno()
    except (AttributeError, OSError):  # closed, or replaced by something in memory
        return None
