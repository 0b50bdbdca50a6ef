"""Attach to a session that another process runs: show its events and answer for a person."""

from __future__ import annotations

import os
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from prsm_core.builtin import BUILTINS
from prsm_core.cli.control import choose_running, open_running
from prsm_core.cli.ledger import open_session
from prsm_core.cli.places import workspace_paths
from prsm_core.cli.running import (
    CONSOLE,
    build_frontend,
    interruptible,
    session_frontend,
    stdout_of,
    unguarded,
)
from prsm_core.cli.saying import say
from prsm_core.cli.setup import load_setup
from prsm_core.domain.account import code_of, problems_of
from prsm_core.domain.events import ends_run
from prsm_core.domain.usage import Spent
from prsm_core.engine.control.client import RemoteRun, RemoteRuns, asking_group
from prsm_core.engine.control.remote import RemoteApp, open_remote
from prsm_core.errors import ControlError
from prsm_core.interfaces.frontend import Frontend, RunResult
from prsm_core.loop.output import hurry_output, write_aside
from prsm_core.loop.run import run_to_end
from prsm_core.plugins import PluginManager
from prsm_core.terminal.follow import AttachableFrontend
from prsm_core.terminal.foreground import leaving_nothing_typed, stdin_descriptor
from prsm_core.terminal.owner import SessionOwner

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from prsm_core.cli.launch import Launch
    from prsm_core.door import View

_VIA = "prsm attach"
_LEFT = "left; the run goes on"


def attach_frontend(launch: Launch, workspace: str, prefix: str | None, ui: str | None) -> int:
    """Show a running session, by default on the console, and return the frontend's exit code."""
    write_aside()
    if ui is None:
        plugins = PluginManager.load(environ=os.environ, builtins=BUILTINS, enabled=False)
    else:
        plugins = load_setup(launch, workspace).plugins
    spec = session_frontend(plugins, ui or CONSOLE)
    frontend = build_frontend(plugins, spec)
    with leaving_nothing_typed(stdin_descriptor()):
        shown = unguarded(frontend)
        if isinstance(shown, AttachableFrontend):
            return run_to_end(_attach(shown, workspace, prefix))
        return run_to_end(_drive(frontend, workspace, prefix, stays=spec.stays))


async def _attach(frontend: AttachableFrontend, workspace: str, prefix: str | None) -> int:
    async with (
        await open_running(workspace, prefix, via=_VIA) as client,
        open_session(workspace, client.session) as (store, info),
    ):
        return await frontend.attach(SessionOwner(client, store, info))


async def _drive(frontend: Frontend, workspace: str, prefix: str | None, *, stays: bool) -> int:
    session, state = await choose_running(workspace, prefix), workspace_paths(workspace).state
    with stdout_of(frontend):
        try:
            with interruptible():
                async with open_remote(state, session, via=_VIA) as app:
                    if stays:
                        return await frontend.run(app)
                    joined = JoinedApp(app, state, await app.view(), via=_VIA)
                    return await frontend.run(joined)
        except KeyboardInterrupt:
            hurry_output(even_results=True)
            say(f"prsm: {_LEFT}", err=True)
            return 0


class JoinedRun(RemoteRun):
    """The handle of a run that is open; its end is read from its events."""

    async def result(self) -> RunResult:
        """Wait for the run's end. Raises ControlError when the session closes first."""
        async with aclosing(self._app.events(self.since)) as events:
            async for event in events:
                if ends_run(event, self.run_id, self.since):
                    return _result(event.data)
        raise ControlError(
            f"session {self.session} was closed before its run ended", code="session_closed"
        )


class _JoinedRuns(RemoteRuns):
    """The runs of a session; the first start returns the open run."""

    def __init__(self, app: RemoteApp, run: JoinedRun | None) -> None:
        super().__init__(app)
        self._open = run
        self._is_joined = False

    async def start(self, task: str, **overrides: Any) -> RemoteRun:
        """Return the open run the first time, then start runs at the owner.

        Raises ControlError (code `no_run`) if none was open.
        """
        if self._is_joined:
            return await super().start(task, **overrides)
        if self._open is None:
            raise ControlError(
                f"no run is open in session {self.app.session}",
                hint="`prsm events` prints what it did",
                code="no_run",
            )
        self._is_joined = True
        return self._open


class JoinedApp(RemoteApp):
    """The remote app of a session whose open run counts as started here."""

    def __init__(self, app: RemoteApp, state_dir: Path, view: View, *, via: str) -> None:
        """Join the run of a session that is open as it is viewed."""
        run = view.run
        options = replace(app.options, task=None if run is None else run.task)
        super().__init__(state_dir, app.session, options, via=via)
        is_open = run is not None and run.status == "running"
        joined = JoinedRun(self, run.id, app.session, view.seq) if run and is_open else None
        self.runs = asking_group(_JoinedRuns)(self, joined)


def _result(told: Mapping[str, Any]) -> RunResult:
    spent = Spent.from_dict({**(told.get("usage") or {}), **told})
    return RunResult(
        status=told["status"],
        summary=told.get("summary") or "",
        exit_code=code_of(told),
        error=told.get("error"),
        usage=spent.usage,
        spent=spent,
        problems=problems_of(told),
    )
