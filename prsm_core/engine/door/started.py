"""A run that a local engine drives, as RunHandle."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prsm_core.interfaces.frontend import RunResult


class StartedRun:
    """RunHandle over the local engine."""

    def __init__(self, session: str, since: int = 0) -> None:
        self.run_id = ""
        self.session = session
        self.since = since
        self.started: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._result: asyncio.Future[RunResult] = asyncio.get_running_loop().create_future()

    async def result(self) -> RunResult:
        """Wait for the run's end."""
        return await asyncio.shield(self._result)

    def begin(self, run_id: str) -> None:
        """Take note that it is in the ledger."""
        self.run_id = run_id
        if not self.started.done():  # whoever waited for it may have gone
            self.started.set_result(run_id)

    def end(self, result: RunResult) -> None:
        """Tell how it has ended."""
        if not self._result.cancelled():
            self._result.set_result(result)

    def fail(self, error: Exception) -> None:
        """Tell what kept it from beginning, or broke it."""
        waiting = self._result if self.started.done() else self.started
        if not waiting.cancelled():
            waiting.set_exception(error)

    def cancel(self) -> None:
        """Let nobody wait for it any more."""
        self.started.cancel()
        self._result.cancel()
