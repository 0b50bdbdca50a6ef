"""Runs a frontend on an engine in this process, from the settings to the exit code."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from prsm_core.app import open_app
from prsm_core.builtin.json_frontend import JsonFrontend
from prsm_core.cli.ledger import open_ledger, open_session
from prsm_core.cli.logs import log_to_file
from prsm_core.cli.setup import load_setup
from prsm_core.config.secrets import known_secrets
from prsm_core.domain.agents import PermissionMode
from prsm_core.engine.processes.launcher import install_child_watcher
from prsm_core.interfaces.frontend import FrontendSpec, RunOptions
from prsm_core.permissions import Redactor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prsm_core.cli.launch import Launch
    from prsm_core.cli.setup import Setup
    from prsm_core.interfaces.frontend import Frontend
    from prsm_core.plugins import PluginManager

_log = logging.getLogger("prsm.cli")

PRIVATE = 0o077  # nothing the engine writes is for other users


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The command line of `prsm run`; None where it says nothing."""

    task: str
    workspace: str
    provider: str | None = None
    model: str | None = None
    mode: str | None = None
    ui: str | None = None
    session: str | None = None
    on_ask: str | None = None
    trust: bool = False
    timeout_s: float | None = None
    budget_usd: float | None = None
    budget_tokens: int | None = None
    sets: tuple[str, ...] = ()


def run_task(launch: Launch, request: Request) -> int:
    """Run the task and return the exit code.

    Raises:
        KeyboardInterrupt: one of `ending_signals` came; everything was shut down in order.
    """
    os.umask(PRIVATE)
    flags = {"budgets.usd": request.budget_usd, "budgets.tokens": request.budget_tokens}
    setup = load_setup(
        launch, request.workspace, sets=request.sets, flags=flags, trust=request.trust
    )
    spec = choose_frontend(setup.plugins, request.ui, on_ask=request.on_ask)
    install_child_watcher()
    return asyncio.run(_run(setup, request, spec))


def choose_frontend(
    plugins: PluginManager, ui: str | None, *, on_ask: str | None = None
) -> FrontendSpec:
    """Return the frontend that was asked for, else the one that fits.

    On a terminal that is the installed interactive frontend of highest priority, otherwise the
    console. Nobody can be asked when --on-ask answers already, or when no frontend was asked for
    by name and stdin is no terminal: then it counts as not interactive.
    """
    on_terminal = sys.stdin is not None and sys.stdin.isatty()
    if ui is None and on_terminal:
        offered = [spec for spec in plugins.collect(FrontendSpec).values() if spec.interactive]
        spec = max(offered, key=lambda spec: spec.priority)
    else:
        spec = plugins.get(FrontendSpec, ui or "console")
    if on_ask is not None or (ui is None and not on_terminal):
        spec = replace(spec, interactive=False)
    return spec


def build_frontend(plugins: PluginManager, spec: FrontendSpec) -> Frontend:
    """Build the frontend that was chosen."""
    factory = plugins.implementation(plugins.get(FrontendSpec, spec.name))
    frontend: Frontend = factory({"interactive": spec.interactive})
    return frontend


async def drive(setup: Setup, options: RunOptions, spec: FrontendSpec, frontend: Frontend) -> int:
    """Run the frontend on an engine of its own and return the exit code."""
    try:
        with run_log(setup):
            async with open_app(
                options,
                setup.settings,
                setup.plugins,
                paths=setup.paths,
                frontend=spec,
                trusted=setup.trusted,
                keeps_rules=setup.keeps_rules,
            ) as app:
                return await frontend.run(app)
    except asyncio.CancelledError:
        if isinstance(frontend, JsonFrontend):
            async with open_ledger(options.workspace) as store:
                await frontend.print_rest(store)
        raise


@contextmanager
def run_log(setup: Setup) -> Iterator[None]:
    """Keep what is logged inside in the state folder, without the secrets of the settings."""
    redactor = Redactor(known_secrets(setup.settings, os.environ))
    with log_to_file(setup.paths.state / "logs", redactor.text):
        _log.info("a run begins in %s", setup.paths.workspace)
        yield
        _log.info("the run ends")


def ending_signals() -> tuple[signal.Signals, ...]:
    """Return the signals that end a run: SIGHUP, too, unless `nohup` or the like set it aside."""
    ends = (signal.SIGINT, signal.SIGTERM)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return ends
    return (*ends, signal.SIGHUP)


@contextmanager
def interruptible() -> Iterator[None]:
    """Let `ending_signals` cancel the running task, which then raises KeyboardInterrupt."""
    _cancel_on_signals()
    try:
        yield
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


async def _run(setup: Setup, request: Request, spec: FrontendSpec) -> int:
    frontend = build_frontend(setup.plugins, spec)
    with interruptible():
        return await drive(setup, await _options(setup, request), spec, frontend)


async def _options(setup: Setup, request: Request) -> RunOptions:
    session = None
    if request.session is not None:
        async with open_session(request.workspace, request.session) as (_, info):
            session = info.session_id
    return RunOptions(
        task=request.task,
        workspace=str(setup.paths.workspace),
        provider=request.provider,
        model=request.model,
        mode=PermissionMode(request.mode or setup.settings.defaults.mode),
        session=session,
        on_ask=request.on_ask or "deny",
        timeout_s=request.timeout_s,
    )


def _cancel_on_signals() -> None:
    """Let the first signal shut everything down in order, and a second one end it at once."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    signals = ending_signals()

    def interrupt() -> None:
        for number in signals:
            loop.remove_signal_handler(number)
        if task is not None:
            task.cancel()

    for number in signals:
        loop.add_signal_handler(number, interrupt)
