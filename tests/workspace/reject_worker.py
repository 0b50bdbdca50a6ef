"""A process that takes changes back and is killed before one of its changes of a file."""

import json
import os
import signal
import sys
from pathlib import Path

from prsm_core.workspace.changes.merging import Wanted
from prsm_core.workspace.changes.records import Entry
from prsm_core.workspace.shadow.root import Limits
from tests.workspace.changes_scene import Tracked
from tests.workspace.shadow_scene import DirectGit

_EVENTS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.symlink", "os.link"}


class _Death:
    """Kills this process at the `step`th thing that it does to files."""

    def __init__(self, step):
        self._left = step
        self.is_armed = False

    def heed(self, event, args):
        if self.is_armed and event in _EVENTS and not (event == "open" and _reads(args)):
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            self._left -= 1


def _reads(args):
    _, mode, flags = args
    return mode in {"r", "rb"} if mode else not flags & (os.O_WRONLY | os.O_RDWR)


def entry(given):
    return None if given is None else Entry(*given)


def main():
    base, step, asked = Path(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3])
    scene = Tracked.__new__(Tracked)
    scene.folder, scene.home, scene.state = base / "work", base / "home", base / "state"
    scene.limits, scene.run = Limits(), DirectGit()
    scene.start_numbers(1000)
    scene.start_moments()
    rejecter = scene.rejecter()
    death = _Death(step)
    sys.addaudithook(death.heed)
    death.is_armed = True
    rejecter.reject(
        "s",
        [
            Wanted(id=id_, path=path, root=root, before=entry(before), after=entry(after))
            for id_, path, root, before, after in asked
        ],
    )
    death.is_armed = False


main()
