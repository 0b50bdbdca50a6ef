"""Runs a command of prsm and kills this process at the nth thing that it does to files or ledger.

Of files those count that are in the workspace, and those that say what is taken back or known of
it; of the ledger each commit counts twice, before and after.
"""

import os
import signal
import sys
from pathlib import Path

from prsm_core.cli import main
from prsm_core.store import SqliteStore

_EVENTS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.symlink", "os.link"}
_OURS = ("/trackers/", "/reject.json", "/.reject-")


class Death:
    """Kills this process, and until then counts."""

    def __init__(self, step, workspace):
        self._left = step
        self._workspace = f"{workspace}/"

    def heed(self, event, args):
        """Take note of an event of the interpreter."""
        if event in _EVENTS and not (event == "open" and self._reads(args)) and self._is_ours(args):
            self.strike()

    def strike(self):
        """Die, if it is time."""
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self._left -= 1

    @staticmethod
    def _reads(args):
        _, mode, flags = args
        return mode in {"r", "rb"} if mode else not flags & (os.O_WRONLY | os.O_RDWR)

    def _is_ours(self, args):
        path = os.fsdecode(args[0]) if isinstance(args[0], str | bytes | os.PathLike) else ""
        return path.startswith(self._workspace) or any(one in path for one in _OURS)

    def commit_by(self, commit):
        """Return a commit that it heeds."""

        async def heeded(store, step):
            self.strike()
            done = await commit(store, step)
            self.strike()
            return done

        return heeded


def run():
    death = Death(int(sys.argv[1]), Path.cwd())
    sys.addaudithook(death.heed)
    SqliteStore.commit = death.commit_by(SqliteStore.commit)  # type: ignore[method-assign]
    sys.exit(main(sys.argv[2:]))


run()
