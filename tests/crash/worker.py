"""`prsm`, to which something happens: it is killed, or its disk is full.

worker.py FAULT MARK ARGUMENTS…: MARK is where it tells what it has done, as JSON. FAULT is one of

none      nothing happens
kill:N    it dies once N commits are durable
alarm:S   it dies S seconds after its first commit, or after it began to open a ledger
full:N    from the N-th write on the ledger may grow by less than a page
once:N    so may it for the N-th write alone
back:S    the clock was set back by S seconds
step:N    it dies before it changes a file for the N-th time: makes, removes, renames or opens one
torn:N    it dies in the midst of a write, once the ledger's log is N bytes longer than before
asked:N   it dies once N questions of agents are durable
heard:N   it dies once N answers are durable that used a message
joint:N   it dies once N answers are durable that used several messages
handing:N it dies before the N-th of these is written
half:N    it dies in the midst of the write of the N-th of these
undone:N  it dies once it has undone receives N times
runs:N    it dies as soon as the N-th command of a script has run, before anything else happens
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prsm_core.cli import main
from prsm_core.domain.messages import MessageType
from prsm_core.domain.writes import CallClosed, MessageSent, ReceivesUndone
from prsm_core.store import SqliteStore, writer
from prsm_core.store.connection import has_begun

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_HOME = os.environ["PRSM_HOME"]
_CHANGES = {"open", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "sqlite3.connect"}
FRAME = 4096 + 24  # of a page in SQLite's log: a limit below cuts the write itself off


def _asks(step: Any) -> bool:
    return any(one.message.type is MessageType.QUESTION for one in step.all(MessageSent))


def _hears(step: Any) -> bool:
    return any(one.consumed for one in step.all(CallClosed))


def _hands_over_several(step: Any) -> bool:
    return any(len(one.consumed) > 1 for one in step.all(CallClosed))


def _undoes(step: Any) -> bool:
    return step.find(ReceivesUndone) is not None


_MOMENTS: Mapping[str, Callable[[Any], bool]] = {
    "asked": _asks,
    "heard": _hears,
    "joint": _hands_over_several,
    "undone": _undoes,
}


class Doom:
    """Counts what is durable, and has the process's fault happen."""

    def __init__(self, fault: str, mark: Path) -> None:
        self._kind, _, number = fault.partition(":")
        self._number = float(number or 0)
        self._mark = mark
        self._began: float | None = None
        self._commits = self._writes = self._moments = self._hand_overs = 0
        self._is_in_hand_over = False

    def install(self) -> None:
        """Look at all that the store does from now on."""
        if self._kind == "step":
            sys.addaudithook(self._count_step)
        if self._kind == "back":
            clock = time.time
            time.time = lambda: clock() - self._number
        self._wrap_open()
        self._wrap_call("commit")
        self._wrap_call("append")
        self._wrap_call("put_copy")
        if self._kind == "runs":
            self._wrap_start()
        if self._kind in {"torn", "half"}:  # which Python ignores, so that a write fails
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        inner = writer._commit
        writer._commit = lambda *given, **options: self._write(inner, *given, **options)

    def _wrap_open(self) -> None:
        inner = SqliteStore._start

        async def started(store: SqliteStore, **options: Any) -> Any:
            if has_begun(store._path):
                self._begin()
            return await inner(store, **options)

        SqliteStore._start = started  # type: ignore[method-assign,assignment]

    def _wrap_call(self, name: str) -> None:
        inner = getattr(SqliteStore, name)

        async def counted(store: SqliteStore, *given: object) -> object:
            if self._kind in {"handing", "half"} and name == "commit":
                self._hand_over(given[0])
            done = await inner(store, *given)
            self._begin()
            self._commits += 1
            self._tell()
            happens = _MOMENTS.get(self._kind)
            self._moments += happens is not None and name == "commit" and happens(given[0])
            count = self._moments if happens else self._commits if self._kind == "kill" else None
            if count == self._number:
                os.kill(os.getpid(), signal.SIGKILL)
            return done

        setattr(SqliteStore, name, counted)

    def _hand_over(self, step: Any) -> None:
        self._hand_overs += _hands_over_several(step)
        if self._hand_overs == self._number and not self._is_in_hand_over:
            self._is_in_hand_over = True
            if self._kind == "handing":
                os.kill(os.getpid(), signal.SIGKILL)

    def _wrap_start(self) -> None:
        # Not before `install`: the engine's clock takes `time.time` as its module is imported.
        from prsm_core.engine.processes.launcher import ProcessLauncher

        inner, started = ProcessLauncher.start, 0

        async def start(launcher: ProcessLauncher, argv: Any, **options: Any) -> Any:
            nonlocal started
            started += options["name"] == "script command"
            if started == self._number and options["name"] == "script command":
                _run_and_die(argv, options["cwd"])
            return await inner(launcher, argv, **options)

        setattr(ProcessLauncher, "start", start)  # noqa: B010 - with other types

    def _count_step(self, event: str, given: tuple[Any, ...]) -> None:
        if _changes_a_file(event, given):
            self._writes += 1
            if self._writes == self._number:
                os.kill(os.getpid(), signal.SIGKILL)

    def _begin(self) -> None:
        if self._began is None:
            self._began = time.monotonic()
            if self._kind == "alarm":  # nobody handles it: the kernel ends the process
                signal.setitimer(signal.ITIMER_REAL, self._number)

    def _tell(self) -> None:
        seconds = time.monotonic() - (self._began or 0.0)
        done = {"commits": self._commits, "writes": self._writes, "seconds": seconds}
        self._mark.write_text(json.dumps(done))

    def _write(self, inner: Callable[..., bool], conn: Any, jobs: Any, **options: Any) -> bool:
        """Write a group of steps, with no room left on the disk if it is that one's turn."""
        self._writes += 1
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        if (room := self._room()) is not None:
            (_, _, path) = conn.execute("PRAGMA database_list").fetchone()
            size = Path(f"{path}-wal").stat().st_size
            resource.setrlimit(resource.RLIMIT_FSIZE, (size + room, hard))
        try:
            return inner(conn, jobs, **options)
        finally:
            if room is not None and self._kind != "full":
                resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))

    def _room(self) -> int | None:
        """Return by how much the log may grow in this write; None: as it likes."""
        if self._kind == "torn":
            return int(self._number)
        if self._kind == "half":
            return FRAME // 2 if self._is_in_hand_over else None
        is_struck = self._kind in {"full", "once"} and self._writes == self._number
        return int(self._number * 997) % FRAME if is_struck else None


def _run_and_die(argv: Sequence[str], cwd: str) -> None:
    subprocess.run(argv, cwd=cwd, check=False)
    os.kill(os.getpid(), signal.SIGKILL)


def _changes_a_file(event: str, given: tuple[Any, ...]) -> bool:
    """Whether this is about to change a file of PRSM's home; SQLite opens its own for each use."""
    if event not in _CHANGES or not str(given[0]).startswith(_HOME):
        return False
    return event != "open" or bool(given[2] & (os.O_WRONLY | os.O_RDWR))


if __name__ == "__main__":
    Doom(sys.argv.pop(1), Path(sys.argv.pop(1))).install()
    sys.exit(main())
