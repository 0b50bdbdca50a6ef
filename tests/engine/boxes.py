"""What tests of boxes share: which of their runtimes work here, and running a program in one."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from prsm_sandbox.sandbox import SandboxExecutor

from prsm_core.domain.boxes import Box
from prsm_core.engine.processes.executor import ChosenExecutor
from prsm_core.executors import ExecutorSpec
from tests.engine.sandboxes import WHY_NONE as WHY_NO_BWRAP
from tests.sources import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from prsm_core.engine.processes.executor import ProgramBoxes


def _why_no_runc() -> str | None:
    if shutil.which("runc") is None:
        return "runc is not installed"
    done = subprocess.run(["runc", "features"], capture_output=True, timeout=30)
    return None if done.returncode == 0 else "this runc is older than 1.1"


WHY_NO_RUNC = _why_no_runc()
needs_runc = pytest.mark.skipif(WHY_NO_RUNC is not None, reason=str(WHY_NO_RUNC))
WHY_NO = {"runc": WHY_NO_RUNC, "bwrap": WHY_NO_BWRAP}


def executor_with(*runtimes):
    """Return the executor, with some of its runtimes only."""
    spec = ExecutorSpec(name="sandbox", summary="", factory=lambda: SandboxExecutor(runtimes))
    return ChosenExecutor(spec=spec)


@dataclass
class Ended:
    """How a program ended."""

    code: int
    output: str
    errors: str


@dataclass
class Boxes:
    """Runs shell commands in boxes, in one folder."""

    boxes: ProgramBoxes
    folder: Path
    state: Path

    async def __call__(self, command, *, given=b"", env=None, **box):
        process = await self.start("sh", "-c", command, env=env, **box)
        if given:
            await process.write(given)
        process.close_stdin()
        output = [line async for line in process.lines()]
        code = await process.wait()
        return Ended(code, b"\n".join(output).decode(), process.stderr_tail)

    async def start(self, *argv, env=None, **box):
        return await self.boxes.start(
            argv, name="boxed", box=Box(**box), cwd=str(self.folder), env=env
        )

    def left(self):
        """Return what is left of boxes on the disk once they are closed."""
        self.boxes.close()
        return sorted(path.name for path in self.state.glob("boxes/*"))


def python_places():
    """Return what a box must show where our tests' Python runs in it: that, and the sources."""
    places = {sys.prefix, sys.base_prefix, str(ROOT)}
    return {place: place for place in places if not place.startswith("/usr/") and place != "/usr"}
