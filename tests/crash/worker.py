"""`prsm`, which kills itself by SIGKILL once so many commits are durable.

worker.py COUNT MARK ARGUMENTS…: after COUNT commits, never for 0; MARK is where their number goes.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from prsm_core.cli import main
from prsm_core.store import SqliteStore


class Killer:
    """Counts what is durable, and ends the process in the moment after."""

    def __init__(self, limit: int, mark: Path) -> None:
        self._limit = limit
        self._mark = mark
        self._count = 0

    def wrap(self, name: str) -> None:
        """Count the calls of a method of the store."""
        inner = getattr(SqliteStore, name)

        async def counted(store: SqliteStore, given: object) -> object:
            done = await inner(store, given)
            self._count += 1
            self._mark.write_text(str(self._count))
            if self._count == self._limit:
                os.kill(os.getpid(), signal.SIGKILL)
            return done

        setattr(SqliteStore, name, counted)


if __name__ == "__main__":
    killer = Killer(int(sys.argv.pop(1)), Path(sys.argv.pop(1)))
    killer.wrap("commit")
    killer.wrap("append")
    sys.exit(main())
