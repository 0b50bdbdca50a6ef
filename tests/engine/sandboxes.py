"""What tests of the sandbox share: whether there is one here, and running a command in it."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from prsm_core.engine.processes.executor import run_shell
from prsm_core.kit.clocks import SystemClock

if TYPE_CHECKING:
    from prsm_core.engine.processes.executor import CommandSandbox
    from prsm_core.engine.processes.launcher import ProcessLauncher


def why_none() -> str | None:
    """Return why bubblewrap cannot be used here, None where it can."""
    if shutil.which("bwrap") is None:
        return "bubblewrap is not installed"
    argv = ["bwrap", "--ro-bind", "/", "/", "--unshare-user", "--unshare-net", "--", "true"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30)
    return None if done.returncode == 0 else f"bubblewrap does not work here: {done.stderr.strip()}"


WHY_NONE = why_none()
needs_bwrap = pytest.mark.skipif(WHY_NONE is not None, reason=str(WHY_NONE))


@dataclass
class Shell:
    """Runs commands in a sandbox."""

    launcher: ProcessLauncher
    sandbox: CommandSandbox
    workspace: Path

    async def __call__(self, command, cwd=None, region=None, closed=()):
        return await run_shell(
            self.launcher,
            command,
            cwd=str(cwd or self.workspace),
            timeout_s=60,
            clock=SystemClock(),
            sandbox=self.sandbox,
            region=region,
            closed=closed,
        )


def output_of(*argv):
    """Return what a program outside prints."""
    return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60).stdout


def text_of(path):
    """Return what a file of /proc says now."""
    return Path(path).read_text()


def is_there(path):
    """Return whether there is anything of this name, be it a broken link."""
    return os.path.lexists(path)
