"""Replays a session in a frontend."""

from __future__ import annotations

import asyncio
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec.structs import replace

from prsm_core.cli.ledger import open_session
from prsm_core.cli.places import workspace_paths
from prsm_core.cli.running import build_frontend, first_leaf, session_frontend, stdout_of
from prsm_core.cli.saying import say
from prsm_core.cli.setup import load_setup
from prsm_core.domain.record import Record
from prsm_core.engine.door.replay import ReplayApp, ReplayEndedError
from prsm_core.errors import ConfigError
from prsm_core.kit.clocks import SystemClock
from prsm_core.loop.output import write_aside
from prsm_core.loop.run import run_to_end

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from prsm_core.cli.launch import Launch
    from prsm_core.domain.sessions import RunNow
    from prsm_core.interfaces.frontend import Frontend, FrontendSpec

INTERRUPTED = 130


class Replay(Record, frozen=True, kw_only=True):
    """The command line of `prsm replay`."""

    workspace: str
    session: str | None
    to: int | None
    speed: float | None
    ui: str


def replay_session(launch: Launch, request: Replay) -> int:
    """Show a session again; return 0, or 130 where the person ended it."""
    write_aside()
    setup = load_setup(launch, request.workspace)
    spec = replace(session_frontend(setup.plugins, request.ui), interactive=False)

    def build() -> Frontend:
        return build_frontend(setup.plugins, spec, replays=True)

    return run_to_end(_replay(request, spec, build))


async def _replay(request: Replay, spec: FrontendSpec, build: Callable[[], Frontend]) -> int:
    async with open_session(request.workspace, request.session) as (store, info):
        if request.to is not None and request.to > info.last_seq:
            raise ConfigError(
                f"session {info.session_id} has no event {request.to}",
                hint=f"its last one is {info.last_seq}",
                code="no_such_event",
            )
        runs = await store.runs(info.session_id)
        app = ReplayApp(
            store,
            info,
            await store.agents(info.session_id),
            clock=SystemClock(),
            to=request.to,
            speed=request.speed,
            stays=spec.stays,
            state_dir=workspace_paths(request.workspace).state,
        )
        with _stopping(app.stop):
            await _show(app, runs, spec, build)
        if app.is_stopped or request.to is not None:
            why = "left" if app.is_stopped else "ended"
            say(f"prsm: the replay was {why} at event {app.seq} of {info.last_seq}", err=True)
        return INTERRUPTED if app.is_stopped else 0


async def _show(
    app: ReplayApp, runs: Sequence[RunNow], spec: FrontendSpec, build: Callable[[], Frontend]
) -> None:
    """Show the whole log in a frontend that stays, else each run in one of its own."""
    if spec.stays:
        frontend = build()
        with stdout_of(frontend):
            await frontend.run(app)
        return
    for run in runs:
        if app.is_stopped or not app.has(run.run_id):
            return
        frontend = build()
        app.turn_to(run)
        with stdout_of(frontend):
            try:
                await frontend.run(app)
            except (ReplayEndedError, ExceptionGroup) as error:
                if not isinstance(first_leaf(error), ReplayEndedError):
                    raise


@contextmanager
def _stopping(stop: Callable[[], None]) -> Iterator[None]:
    """Let SIGINT and SIGTERM stop the replay, and a second one the process."""
    loop, signals = asyncio.get_running_loop(), (signal.SIGINT, signal.SIGTERM)

    def came() -> None:
        stop()
        for number in signals:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)

    for number in signals:
        loop.add_signal_handler(number, came)
    try:
        yield
    finally:
        for number in signals:
            loop.remove_signal_handler(number)
