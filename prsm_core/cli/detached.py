"""The process behind `prsm run --detach`: it owns the run, or a session, to its end.

It is started with the number of a socket. The socket brings the request and takes back what began;
from then on stdout and stderr are the session's log, and nothing keeps the terminal open.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from msgspec import convert

from prsm_core.cli import run_as_process
from prsm_core.cli.running import Request, run_in
from prsm_core.cli.setup import Setup, tell_quarantined
from prsm_core.config import private_dir
from prsm_core.interfaces.frontend import AppHandle, Frontend, FrontendSpec
from prsm_core.kit.clocks import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from prsm_core.cli.launch import Launch
    from prsm_core.engine.door.local import LocalApp
    from prsm_core.interfaces.clock import Clock

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
        announce = Announcement(wire, setup.paths.state / "logs")
        frontend = DetachedFrontend(announce, request.idle_s)
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
    """Reports that the owner is ready and moves this process from the terminal to its log."""

    wire: socket.socket
    logs: Path

    def __call__(self, session: str, run: str | None) -> None:
        """Report the session and run once the log is there. The starter may have gone already."""
        path = private_dir(self.logs) / f"{session}{SUFFIX}"
        # Names sort by age.
        for old in sorted(self.logs.glob(f"{'[0-9A-Z]' * SESSION_LENGTH}{SUFFIX}"))[:-KEPT]:
            old.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        log = os.open(path, flags, 0o600)
        for stream, number in ((sys.stdout, STDOUT), (sys.stderr, STDERR)):
            stream.flush()
            os.dup2(log, number)
        os.close(log)
        pid = str(os.getpid())
        told = {"session": session, "run": run, "pid": pid, "log": str(path)}
        with self.wire, suppress(ConnectionError):
            self.wire.sendall(json.dumps(told).encode() + b"\n")


class DetachedFrontend(Frontend):
    """Starts the task and waits for its end.

    Without a task it ends after `idle_s` without a request, or with the first run that is started.
    """

    def __init__(
        self,
        announce: Callable[[str, str | None], object],
        idle_s: float,
        clock: Clock | None = None,
    ) -> None:
        self._announce = announce
        self._idle_s = idle_s
        self._clock = clock or SystemClock()

    async def run(self, app: AppHandle) -> int:
        """Return the run's exit code; 0 without a task."""
        if app.options.task is None:
            await self._serve(cast("LocalApp", app))
            return 0
        run = await app.runs.start(app.options.task)
        self._announce(run.session, run.run_id)
        _told.info("run %s of session %s has begun", run.run_id, run.session)
        result = await run.result()
        _told.info(
            "it is %s, %s%s",
            result.status,
            result.spent.text,
            f": {result.error}" if result.error else "",
        )
        return result.exit_code

    async def _serve(self, app: LocalApp) -> None:
        view = await app.view()
        self._announce(view.session, None)
        _told.info("session %s is served", view.session)
        run = asyncio.ensure_future(_until_a_run_ends(app, view.seq))
        idle = asyncio.ensure_future(app.visits.none_for(self._clock, self._idle_s))
        try:
            await asyncio.wait({run, idle}, return_when=asyncio.FIRST_COMPLETED)
            if run.done() or app.runs.has_started:
                await run
        finally:
            for task in (run, idle):
                task.cancel()
            await asyncio.wait({run, idle})


async def _until_a_run_ends(app: LocalApp, after: int) -> None:
    async for event in app.events(after):
        if event.type == "run_finished":
            return


if __name__ == "__main__":
    sys.exit(main())
