"""The run of an application that a test plays: it ends as the test says."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prsm_core.interfaces.frontend import RunResult

RUN, SESSION = "run-1", "session-1"


class ScriptedRun:
    """RunHandle whose result a test gives."""

    def __init__(self, session: str = SESSION) -> None:
        self.run_id = RUN
        self.session = session
        self.since = 0
        self.ended: asyncio.Future[RunResult] = asyncio.get_running_loop().create_future()

    async def result(self) -> RunResult:
        """Wait until the test has ended the run."""
        return await asyncio.shield(self.ended)
