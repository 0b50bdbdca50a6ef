"""A process that makes, settles or finishes a worktree, and is killed before one of its acts."""

import os
import signal
import sys
from pathlib import Path

from prsm_files.shadow.root import Limits
from prsm_files.worktrees.worktrees import Whose

from plugins.prsm_files.tests.shadow_scene import DirectGit
from plugins.prsm_files.tests.trees_scene import Grove

_EVENTS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.symlink", "os.link"}
_EVENTS |= {"os.chmod", "shutil.rmtree"}
_ACTS = {b"update-ref", b"worktree", b"read-tree", b"commit-tree"}


class _Death:
    """Kills this process at the `step`th thing that it does to files, itself or by git."""

    def __init__(self, step):
        self._left = step
        self.is_armed = False

    def heed(self, event, args):
        if not self.is_armed or not _acts(event, args):
            return
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self._left -= 1


def _acts(event, args):
    if event == "subprocess.Popen":
        return not _ACTS.isdisjoint(map(os.fsencode, args[1]))
    if event == "open":
        _, mode, flags = args
        reads = mode in {"r", "rb"} if mode else not flags & (os.O_WRONLY | os.O_RDWR)
        return not reads and args[0] != os.devnull
    return event in _EVENTS


def main():
    base, step, act = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    scene = Grove.__new__(Grove)
    scene.folder, scene.home, scene.state = base / "work", base / "home", base / "state"
    scene.limits, scene.run = Limits(), DirectGit()
    scene.start_numbers(1000)
    scene.set_places(base)
    trees = scene.trees()
    death = _Death(step)
    sys.addaudithook(death.heed)
    death.is_armed = True
    if act == "make":
        trees.make(Whose("session", "id-w1", "w1"))
    elif act == "settle":
        trees.settle("ession-w1", "what w1 did")
    elif act == "sweep":
        trees.sweep(lambda _: False)
    else:
        trees.finish("ession-w1")
    death.is_armed = False


main()
