"""A process that restores a snapshot and is killed at a step: before it changes a file, itself or
by git, or after a command of git.
"""

import sys
from pathlib import Path

from prsm_files.shadow.root import Limits

from plugins.prsm_files.tests.dying import Death
from plugins.prsm_files.tests.shadow_scene import DirectGit, Scene


class DyingGit(DirectGit):
    """Kills this process before or after a given command."""

    def __init__(self, death):
        super().__init__()
        self._death = death

    def __call__(self, args, **more):
        self._death.step()
        output = super().__call__(args, **more)
        self._death.step()
        return output


def main():
    scene = Scene.__new__(Scene)
    base, death = Path(sys.argv[1]), Death(int(sys.argv[3]))
    scene.folder, scene.home, scene.state = base / "work", base / "home", base / "state"
    scene.limits, scene.run = Limits(), DyingGit(death)
    scene.start_numbers(1000)
    sys.addaudithook(death.heed)
    death.is_armed = True
    scene.shadow().restore(sys.argv[2])


main()
