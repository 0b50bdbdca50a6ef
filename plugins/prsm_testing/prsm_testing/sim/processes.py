"""Simulated processes: they do nothing but be there, and be counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prsm_core.engine.processes.launcher import ProcessLauncher

if TYPE_CHECKING:
    from prsm_core.interfaces.clock import Clock
    from prsm_testing.sim.rules import Findings


class SimProcess:
    """A process of a session."""

    is_own = False  # it is the agent's, no helper of PRSM itself

    def __init__(self, launcher: SimLauncher) -> None:
        self._launcher = launcher

    def kill(self) -> None:
        """End it at once."""
        self._launcher.ended(self)


class SimLauncher(ProcessLauncher):
    """Starts no process; there may be `limit` of them, where there is one."""

    def __init__(self, clock: Clock, findings: Findings, limit: int | None) -> None:
        super().__init__(clock)
        self._findings = findings
        self._limit = limit
        self._processes: list[SimProcess] = []

    @property
    def live(self) -> Any:
        """The processes that have not ended."""
        return tuple(self._processes)

    @property
    def of_agents(self) -> int:
        """How many have not ended."""
        return len(self._processes)

    async def start(self, *_: Any, **__: Any) -> Any:
        """Count one more, which begins a little later."""
        await self._clock.sleep(0.05)
        self._processes.append(process := SimProcess(self))
        count = len(self._processes)
        self._findings.check(
            "processes",
            self._limit is not None and count <= self._limit,
            f"{count} processes run at one time, of {self._limit} that may",
        )
        return process

    def ended(self, process: SimProcess) -> None:
        """Count one less."""
        self._processes.remove(process)
