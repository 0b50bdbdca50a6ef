"""A process that commits changes and is killed before one of its changes of a file, or of git's."""

import json
import os
import signal
import sys
from pathlib import Path

from prsm_files.changes.merging import Wanted
from prsm_files.commits import Asked
from prsm_files.shadow.records import Entry
from prsm_files.shadow.root import Limits

from plugins.prsm_files.tests.commits_scene import Committed
from plugins.prsm_files.tests.shadow_scene import DirectGit

_EVENTS = {"open", "os.rename", "os.remove", "os.mkdir", "os.link", "os.truncate", "os.chmod"}
_WRITES = {"update-ref", "commit-tree", "write-tree", "update-index", "hash-object", "read-tree"}


class _Death:
    """Kills this process at the `step`th thing that it, or git, does to files.

    It counts from the first command of git of the name `since`.
    """

    def __init__(self, step, since):
        self._left = step
        self._since = since
        self.is_armed = False

    def heed(self, event, args):
        if not self.is_armed:
            return
        if event == "subprocess.Popen" and self._since in map(os.fsdecode, args[1]):
            self._since = None
        if self._since is None and _counts(event, args):
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            self._left -= 1


def _counts(event, args):
    if event == "subprocess.Popen":
        return bool(_WRITES & {os.fsdecode(word) for word in args[1]})
    if event == "open":
        _, mode, flags = args
        return mode not in {"r", "rb"} if mode else bool(flags & (os.O_WRONLY | os.O_RDWR))
    return event in _EVENTS


def main():
    base, step, asked = Path(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3])
    scene = Committed.__new__(Committed)
    scene.folder, scene.home, scene.state = base / "work", base / "home", base / "state"
    scene.limits, scene.run = Limits(), DirectGit()
    scene.start_numbers(1000)
    scene.start_moments()
    committer = scene.committer()
    wanted = [
        Asked(
            message=message,
            changes=tuple(
                Wanted(id=id_, path=path, root="", before=_entry(before), after=_entry(after))
                for id_, path, before, after in changes
            ),
        )
        for message, changes in asked
    ]
    death = _Death(step, sys.argv[4])
    sys.addaudithook(death.heed)
    death.is_armed = True
    committer.commit("s", wanted)
    death.is_armed = False


def _entry(given):
    return None if given is None else Entry(*given)


main()
