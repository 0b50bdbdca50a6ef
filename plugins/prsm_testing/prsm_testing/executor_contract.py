"""The contract of every executor, as a pytest class to subclass.

class TestMyExecutor(ExecutorContract):
    spec = next(iter(prsm_executors()))
"""

from __future__ import annotations

from abc import ABC
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, ClassVar

from prsm_core.config.schema import SandboxSettings
from prsm_core.domain.boxes import Box
from prsm_core.engine.processes.executor import (
    BOXES,
    ChosenExecutor,
    CommandSandbox,
    ProgramBoxes,
    run_shell,
)
from prsm_core.engine.processes.launcher import ProcessLauncher
from prsm_core.kit.clocks import SystemClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from prsm_core.engine.processes.executor import ShellResult
    from prsm_core.executors import ExecutorSpec

SECONDS = 60.0


class ExecutorContract(ABC):
    """What every executor does; each test's docstring is the rule. It may have no sandbox here."""

    spec: ClassVar[ExecutorSpec]  # the record that the plugin registers

    @asynccontextmanager
    async def _opened(self, folder: Path) -> AsyncIterator[tuple[ProcessLauncher, CommandSandbox]]:
        for name in ("work", "state"):
            (folder / name).mkdir(mode=0o700)
        (folder / "state" / "ledger").write_text("hidden")
        async with ProcessLauncher(SystemClock()) as launcher:
            sandbox = CommandSandbox(
                SandboxSettings(),
                executor=ChosenExecutor(spec=self.spec),
                workspace=str(folder / "work"),
                launcher=launcher,
                state_dir=folder / "state",
            )
            try:
                yield launcher, sandbox
            finally:
                sandbox.close()

    async def _run(self, folder: Path, command: str) -> tuple[ShellResult, bool]:
        """Run a command; return what it did, and whether it was shut in."""
        async with self._opened(folder) as (launcher, sandbox):
            state = await sandbox.prepare()
            result = await run_shell(
                launcher,
                command,
                cwd=str(folder / "work"),
                timeout_s=SECONDS,
                clock=SystemClock(),
                sandbox=sandbox,
            )
        return result, state.is_active

    async def test_a_look_at_the_sandbox_writes_nothing(self, tmp_path: Path) -> None:
        """`prsm doctor` looks. A reason says why there is none."""
        async with self._opened(tmp_path) as (_, sandbox):
            state = await sandbox.examine()
        assert state.is_active or state.reason
        assert _names(tmp_path) == {"work", "state", "state/ledger"}

    async def test_a_command_writes_its_workspace(self, tmp_path: Path) -> None:
        """Shut in or not; its exit code and its output come through, and nothing else is left."""
        result, _ = await self._run(tmp_path, "echo a > file && cat file; exit 7")
        assert (result.exit_code, result.stdout) == (7, "a\n")
        assert _names(tmp_path / "work") == {"file"}

    async def test_a_command_that_is_shut_in_does_not_see_the_folders_of_prsm(
        self, tmp_path: Path
    ) -> None:
        """They hold the ledger, and keys by which people answer."""
        result, is_active = await self._run(tmp_path, f"cat {tmp_path}/state/ledger")
        assert ("hidden" in result.stdout) is not is_active

    async def test_a_box_runs_its_program_and_leaves_nothing(self, tmp_path: Path) -> None:
        """Where there are none a reason says why."""
        async with ProcessLauncher(SystemClock()) as launcher:
            boxes = ProgramBoxes(launcher, tmp_path, ChosenExecutor(spec=self.spec))
            state = await boxes.examine()
            assert state.runtime or state.reason
            if state.runtime:
                process = await boxes.start(["true"], name="boxed", box=Box())
                assert await process.wait() == 0
            boxes.close()
        assert _names(tmp_path) <= {BOXES}


def _names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}
