"""A process that restores a snapshot and is killed at a step: before or after one, or anywhere."""

import os
import signal
import sys
from pathlib import Path

from prsm_core.workspace.shadow.root import Limits
from tests.workspace.shadow_scene import DirectGit, Scene


class DyingGit(DirectGit):
    """Kills this process before or after a given command."""

    def __init__(self, step):
        super().__init__()
        self._left = step

    def __call__(self, args, **more):
        self._die_at_zero()
        output = super().__call__(args, **more)
        self._die_at_zero()
        return output

    def _die_at_zero(self):
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self._left -= 1


def main():
    scene = Scene.__new__(Scene)
    base = Path(sys.argv[1])
    scene.folder, scene.home, scene.state = base / "work", base / "home", base / "state"
    scene.limits, scene.run = Limits(), DyingGit(int(sys.argv[3]))
    scene.start_numbers(1000)
    scene.shadow().restore(sys.argv[2])


main()
