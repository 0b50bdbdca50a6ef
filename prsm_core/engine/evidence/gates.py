"""Runs the gates: commands of the configuration that results have to pass."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

from prsm_core.domain.record import Record
from prsm_core.engine.processes.shell import run_shell
from prsm_core.errors import PrsmError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prsm_core.config.schema import GateSettings
    from prsm_core.domain.agents import AgentRole
    from prsm_core.engine.processes.launcher import ProcessLauncher
    from prsm_core.engine.processes.sandbox import Sandbox
    from prsm_core.interfaces.clock import Clock

OUTPUT_LIMIT = 8 * 2**10  # bytes kept of the end of a gate's output
SHOWN_LINES = 20


class GateVerdict(Record, frozen=True, kw_only=True):
    """How a gate ended; what could not even run is broken, and no agent's fault."""

    name: str
    problem: str | None  # None: it passed
    output: str = ""  # its last lines
    is_broken: bool = False


class GateRunner:
    """Lets the gates of one engine run in turn: they often share ports and build folders."""

    def __init__(
        self,
        gates: Mapping[str, GateSettings],
        *,
        workspace: str,
        launcher: ProcessLauncher,
        clock: Clock,
        env: Mapping[str, str],
        sandbox: Sandbox | None = None,
    ) -> None:
        self._gates = gates
        self._workspace = workspace
        self._launcher = launcher
        self._clock = clock
        self._env = env
        self._sandbox = sandbox
        self._one_at_a_time = asyncio.Lock()

    async def run(self, role: AgentRole, workspace: str | None = None) -> list[GateVerdict]:
        """Run each gate for a role in the order of the configuration; none may be for it.

        They run in the workspace, or in its like in the worktree of an agent.
        """
        wanted = [
            (name, gate)
            for name, gate in self._gates.items()
            if not gate.roles or role in gate.roles
        ]
        if not wanted:
            return []
        async with self._one_at_a_time:
            return [await self._run(name, gate, workspace) for name, gate in wanted]

    async def _run(self, name: str, gate: GateSettings, workspace: str | None) -> GateVerdict:
        try:
            result = await run_shell(
                self._launcher,
                f"exec 2>&1\n{gate.command}",  # lines of both outputs, in their order
                cwd=os.fspath(Path(workspace or self._workspace, gate.cwd or "")),
                timeout_s=gate.timeout_seconds,
                clock=self._clock,
                env=self._env,
                output_limit=OUTPUT_LIMIT,
                keep_end=True,
                sandbox=self._sandbox,
            )
        except PrsmError as error:
            return GateVerdict(name=name, problem=f"could not run: {error.message}", is_broken=True)
        problem = None
        if result.timed_out:
            problem = f"did not end within {gate.timeout_seconds:g} s"
        elif result.exit_code != 0:
            problem = f"failed with exit code {result.exit_code}"
        lines = result.stdout.rstrip().splitlines()[-SHOWN_LINES:]
        return GateVerdict(name=name, problem=problem, output="\n".join(lines))
