"""What tests of boxes share: which of their runtimes work here, and running a program in one."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from prsm_core.domain.boxes import Box
from tests.engine.sandboxes import WHY_NONE as WHY_NO_BWRAP

if TYPE_CHECKING:
    from pathlib import Path

    from prsm_core.engine.processes.container import Containers


def _why_no_runc() -> str | None:
    if shutil.which("runc") is None:
        return "runc is not installed"
    done = subprocess.run(["runc", "features"], capture_output=True, timeout=30)
    return None if done.returncode == 0 else "this runc is older than 1.1"


WHY_NO_RUNC = _why_no_runc()
needs_runc = pytest.mark.skipif(WHY_NO_RUNC is not None, reason=str(WHY_NO_RUNC))
WHY_NO = {"runc": WHY_NO_RUNC, "bwrap": WHY_NO_BWRAP}


@dataclass
class Ended:
    """How a program ended."""

    code: int
    output: str
    errors: str


@dataclass
class Boxes:
    """Runs shell commands in boxes, in one folder."""

    containers: Containers
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
        return await self.containers.start(
            argv, name="boxed", box=Box(**box), cwd=str(self.folder), env=env
        )

    def left(self):
        """Return what is left of boxes on the disk."""
        return sorted(path.name for path in self.state.glob("boxes/*/*"))
