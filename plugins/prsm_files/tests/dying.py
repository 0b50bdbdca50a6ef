"""What kills a process at one of the things that it does to files, counted from 0."""

import os
import signal

_EVENTS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.symlink", "os.link"}
_EVENTS |= {"os.chmod", "os.truncate"}


class Death:
    """Kills this process at the `step`th thing that it does to files."""

    def __init__(self, step):
        self._left = step
        self.is_armed = False

    def heed(self, event, args):
        if self.is_armed and event in _EVENTS and not (event == "open" and _reads(args)):
            self.step()

    def step(self):
        """Die, if it is time."""
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self._left -= 1


def _reads(args):
    _, mode, flags = args
    return mode in {"r", "rb"} if mode else not flags & (os.O_WRONLY | os.O_RDWR)
