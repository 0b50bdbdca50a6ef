"""The process that `prsm run --detach` leaves behind: it owns the run to its end, then ends.

It is started with the number of a socket, over which it is told what to run and tells what began.
From then on stdout and stderr are the session's log, and nothing keeps the terminal open.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec import convert

from prsm_core.cli import run_as_process
from prsm_core.cli.running import Request, run_in
from prsm_core.cli.setup import Setup, tell_quarantined
from prsm_core.config import private_dir
from prsm_core.interfaces.frontend import AppHandle, Frontend, FrontendSpec, RunHandle

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from prsm_core.cli.launch import Launch

_told = logging.getLogger("prsm.told")

FAILED = 1
STDOUT, STDERR = 1, 2
SUFFIX, SESSION_LENGTH = ".log", 26
KEPT = 100  # logs of sessions


def main() -> int:
    """Own the run that is asked for and return its exit code."""
    wire = socket.socket(fileno=int(sys.argv[1]))
    with wire.makefile("rb") as lines:
        line = lines.readline()
    if not line.endswith(b"\n"):  # whoever asked has gone
        return FAILED
    told = json.loads(line)

    def own(launch: Launch) -> int:
        launch.debug, launch.load_plugins = told["debug"], told["load_plugins"]
        return _own(launch, told["request"], wire)

    # A terminal that goes is told to whom it started, and to those who come after.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    return run_as_process(own)


def _own(launch: Launch, told: Mapping[str, Any], wire: socket.socket) -> int:
    request = convert(told, Request)

    def build(setup: Setup) -> tuple[FrontendSpec, Callable[[], Frontend]]:
        tell_quarantined(setup.plugins)
        frontend = DetachedFrontend(Announcement(wire, setup.paths.state / "logs"))
        spec = FrontendSpec(
            name="detached",
            summary="Nobody is there; a person may attach.",
            interactive=request.on_ask is None,
            priority=0,
            factory="prsm_core.cli.detached:DetachedFrontend",
        )
        return spec, lambda: frontend

    return run_in(launch, request, build)


@dataclass(frozen=True, slots=True)
class Announcement:
    """Tells that the run has begun, and moves this process from the terminal to the log."""

    wire: socket.socket
    logs: Path

    def __call__(self, run: RunHandle) -> None:
        """Tell it, once the log is there. Whoever asked may have gone: the run goes on."""
        path = private_dir(self.logs) / f"{run.session}{SUFFIX}"
        _forget_old(self.logs)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        log = os.open(path, flags, 0o600)
        for stream, number in ((sys.stdout, STDOUT), (sys.stderr, STDERR)):
            stream.flush()
            os.dup2(log, number)
        os.close(log)
        pid = str(os.getpid())
        told = {"session": run.session, "run": run.run_id, "pid": pid, "log": str(path)}
        with self.wire, suppress(ConnectionError):
            self.wire.sendall(json.dumps(told).encode() + b"\n")


def _forget_old(logs: Path) -> None:
    """Remove the logs of all but the newest sessions, which their names tell."""
    for path in sorted(logs.glob(f"{'[0-9A-Z]' * SESSION_LENGTH}{SUFFIX}"))[:-KEPT]:
        path.unlink(missing_ok=True)


class DetachedFrontend(Frontend):
    """Starts the task and waits for its end; what happens is in the ledger, for who looks."""

    def __init__(self, announce: Announcement) -> None:
        self._announce = announce

    async def run(self, app: AppHandle) -> int:
        """Return the run's exit code."""
        run = await app.runs.start(app.options.task or "")
        self._announce(run)
        _told.info("run %s of session %s has begun", run.run_id, run.session)
        result = await run.result()
        _told.info(
            "it is %s, %s%s",
            result.status,
            result.spent.text,
            f": {result.error}" if result.error else "",
        )
        return result.exit_code


if __name__ == "__main__":
    sys.exit(main())
