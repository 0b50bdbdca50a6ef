"""Runs the gates: commands of the configuration that results have to pass."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from prsm_core import PrsmError
from prsm_core.files import run_shell

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from prsm_core import AgentRole, Clock
    from prsm_core.files import CommandSandbox, GateSettings, ProcessLauncher

OUTPUT_LIMIT = 8 * 2**10  # bytes kept of the end of a gate's output
SHOWN_LINES = 20


class GateVerdict(Struct, frozen=True, kw_only=True):
    """How a gate ended; what could not even run is broken, and no agent's fault."""

    name: str
    problem: str | None  # None: it passed
    output: str = ""  # its last lines
    is_broken: bool = False
    is_required: bool = True
    folder: str = ""  # the workspace that it judged
    is_whole: bool = True  # that is the session's own
    is_new: bool = True  # it ran now; else it passed before, and nothing has changed since


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
        variables_of: Callable[[str], Mapping[str, str]],
        sandbox: Callable[[], CommandSandbox] | None = None,
    ) -> None:
        self._gates = gates
        self._workspace = workspace
        self._launcher = launcher
        self._clock = clock
        self._env = env
        self._variables_of = variables_of
        self._sandbox = sandbox
        self._one_at_a_time = asyncio.Lock()
        self._passed: dict[tuple[str, str], int] = {}  # by gate and folder: what was done by then

    def _wanted(self, roles: frozenset[AgentRole]) -> list[tuple[str, GateSettings]]:
        gates = self._gates.items()
        return [(n, gate) for n, gate in gates if not gate.roles or roles.intersection(gate.roles)]

    async def run(
        self,
        roles: frozenset[AgentRole],
        workspace: str | None = None,
        *,
        now: Callable[[], int] = lambda: 0,
        edited: int | None = None,
    ) -> list[GateVerdict]:
        """Run each gate for one of the roles in the order of the configuration; none may be for it.

        They run in the workspace, or in its like in a worktree. One that has passed there does not
        run again where the last edit, by the number of an event, was over by then.
        """
        folder, verdicts = workspace or self._workspace, []
        async with self._one_at_a_time:
            for name, gate in self._wanted(roles):
                begins = now()
                passed = self._passed.get((name, folder))
                if edited is not None and passed is not None and edited <= passed:
                    verdict, is_new = GateVerdict(name=name, problem=None), False
                else:
                    verdict, is_new = await self._run(name, gate, folder), True
                self._passed.pop((name, folder), None)
                if verdict.problem is None:
                    self._passed[name, folder] = begins if is_new else passed or 0
                about = {"folder": folder, "is_whole": folder == self._workspace}
                verdict = replace(verdict, is_required=gate.required, is_new=is_new, **about)
                verdicts.append(verdict)
        return verdicts

    async def _run(self, name: str, gate: GateSettings, workspace: str) -> GateVerdict:
        try:
            result = await run_shell(
                self._launcher,
                f"exec 2>&1\n{gate.command}",  # lines of both outputs, in their order
                cwd=os.fspath(Path(workspace, gate.cwd or "")),
                timeout_s=gate.timeout_seconds,
                clock=self._clock,
                env={**self._env, **self._variables_of(workspace)},
                output_limit=OUTPUT_LIMIT,
                keep_end=True,
                sandbox=None if self._sandbox is None else self._sandbox(),
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
