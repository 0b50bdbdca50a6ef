"""Many seeds, one after the other or spread over processes; the outcomes come in order."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections import deque
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import prsm_core
import prsm_testing
from prsm_core.engine.processes.launcher import ProcessLauncher
from prsm_core.errors import ProcessError
from prsm_core.kit.clocks import SystemClock
from prsm_core.kit.temporary import temporary_folder
from prsm_core.loop.run import run_to_end
from prsm_testing.sim.outcome import Outcome
from prsm_testing.sim.world import simulate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence

    from prsm_core.engine.processes.child import ChildProcess
    from prsm_testing.sim.plan import Plan

    OnOutcome = Callable[[Outcome], bool]  # whether to go on


def play_all(plans: Sequence[Plan], jobs: int, on_outcome: OnOutcome) -> None:
    """Play all plans, at most `jobs` at a time, and tell each outcome in the order of plans.

    Plans that are played at a time must differ in their seeds only. Raises ProcessError when
    one of the processes ends by itself, ConfigError where no temporary folder can be made.
    """
    if jobs > 1 and len(plans) > 1:
        # Made here: what is wrong with it is told once, and what a killed process leaves goes.
        with temporary_folder("prsm-sim-") as place:
            run_to_end(_spread(plans, min(jobs, len(plans)), on_outcome, place))
        return
    for plan in plans:
        if not on_outcome(simulate(plan)):
            return


async def _spread(plans: Sequence[Plan], jobs: int, on_outcome: OnOutcome, place: str) -> None:
    row = _Row(plans, on_outcome, place)
    async with ProcessLauncher(SystemClock()) as launcher, asyncio.TaskGroup() as group:
        for number in range(jobs):
            _ = group.create_task(row.work(launcher, f"sim {number + 1}"))


class _Row:
    """Owns what is still to do, and the outcomes that came before their turn.

    What processes write to disk lies in `place`.
    """

    def __init__(self, plans: Sequence[Plan], on_outcome: OnOutcome, place: str) -> None:
        self._todo: Iterator[Plan] = iter(plans)
        self._untold = deque(plan.seed for plan in plans)
        self._on_outcome = on_outcome
        self._place = place
        self._early: dict[int, Outcome] = {}
        self._is_over = False

    async def work(self, launcher: ProcessLauncher, name: str) -> None:
        """Have one process play plan after plan."""
        plan = next(self._todo, None)
        if plan is None:
            return
        async with _worker(launcher, plan, name, self._place) as process:
            lines = process.lines()
            while plan is not None and not self._is_over:
                await process.write(f"{plan.seed}\n".encode())
                line = await anext(lines, None)
                if line is None:
                    why = process.stderr_tail.strip()[-500:]
                    raise ProcessError(f"the process that played seed {plan.seed} ended: {why}")
                self._take(Outcome.from_dict(plan, json.loads(line)))
                plan = next(self._todo, None)

    def _take(self, outcome: Outcome) -> None:
        self._early[outcome.plan.seed] = outcome
        while not self._is_over and self._untold and self._untold[0] in self._early:
            self._is_over = not self._on_outcome(self._early.pop(self._untold.popleft()))


@asynccontextmanager
async def _worker(
    launcher: ProcessLauncher, plan: Plan, name: str, place: str
) -> AsyncIterator[ChildProcess]:
    """Start this very program again, to play the seeds that it reads."""
    faults = ",".join(sorted(plan.faults)) or "none"
    options = (faults, str(plan.agents), repr(plan.minutes))
    homes = (str(Path(file).parents[1]) for file in (prsm_core.__file__, prsm_testing.__file__))
    process = await launcher.start(
        (sys.executable, "-m", "prsm_testing.sim", *options),
        name=name,
        env={"PYTHONPATH": os.pathsep.join(homes), "TMPDIR": place},
    )
    try:
        yield process
    finally:
        await process.stop()
