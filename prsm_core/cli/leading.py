"""Runs an engine whose master is the MCP client that has started this process."""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from prsm_core.app import open_app
from prsm_core.builtin.client_provider import Seat
from prsm_core.cli.eliciting import ClientAsker
from prsm_core.cli.ledger import open_session
from prsm_core.cli.running import PRIVATE, ending_signals, run_log
from prsm_core.cli.setup import load_setup, tell_quarantined
from prsm_core.domain.agents import PermissionMode
from prsm_core.engine.processes.launcher import install_child_watcher
from prsm_core.errors import ConfigError
from prsm_core.interfaces.frontend import Frontend, FrontendSpec, RunOptions
from prsm_core.kit.outcomes import with_notice
from prsm_core.kit.reading import whole_number
from prsm_core.kit.stdio import take_stdio
from prsm_core.loop.output import write_aside
from prsm_core.loop.run import run_to_end
from prsm_core.toolserver.stdio import client_processes, serve_stdio

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from prsm_core.cli.launch import Launch
    from prsm_core.cli.setup import Setup
    from prsm_core.domain.tools import ToolOutcome, ToolSpec
    from prsm_core.interfaces.frontend import AppHandle
    from prsm_core.interfaces.provider import AgentHost
    from prsm_core.kit.stdio import Wire

_log = logging.getLogger("prsm.cli")

TASK = "What the MCP client wants done."
PATIENCE_SECONDS = 300.0
_LIMIT = "MCP_TOOL_TIMEOUT"  # ms: how Claude Code is told to cut calls off
_MARGIN = 0.9  # of that limit: the answer has to arrive within it
BEGINS = "a client starts this command: claude mcp add --scope user prsm -- prsm mcp"

INSTRUCTIONS = """\
PRSM runs coding agents as your children. Give each a complete task with spawn_child, or several \
at once with spawn_children_parallel: a child sees nothing of this conversation. Then call \
wait_for_message with all, for all results together. A question ends it early: answer at once with \
respond_to_child, and wait again. An answer of type `pending` is no failure: the work goes on, \
and wait_for_message with its token gives the answer. A `notice` is for your user: pass it on. \
When your session ends, the children that still run are killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lead:
    """The command line of `prsm mcp`; None where it says nothing."""

    workspace: str
    provider: str | None = None
    model: str | None = None
    mode: str | None = None
    session: str | None = None
    on_ask: str | None = None
    unattended_s: float | None = None
    patience_s: float | None = None
    budget_usd: float | None = None
    budget_tokens: int | None = None
    sets: tuple[str, ...] = ()
    without: tuple[str, ...] = ()


def lead(launch: Launch, request: Lead) -> int:
    """Serve the client until it leaves and return the exit code."""
    os.umask(PRIVATE)
    wire = take_stdio("MCP client", hint=BEGINS)
    write_aside()
    patience_s = request.patience_s or _patience(os.environ)
    flags = {"budgets.usd": request.budget_usd, "budgets.tokens": request.budget_tokens}
    setup = load_setup(
        launch,
        request.workspace,
        sets=request.sets,
        flags=flags,
        without=request.without,
        begins_run=True,
    )
    tell_quarantined(setup.plugins)
    install_child_watcher()
    return run_to_end(_lead(setup, request, wire, patience_s))


def _patience(environ: Mapping[str, str]) -> float:
    """Return how many seconds a call may take, as far as the environment tells."""
    limit = environ.get(_LIMIT)
    if limit is None:
        return PATIENCE_SECONDS
    milliseconds = whole_number(limit)
    if not milliseconds:
        raise ConfigError(
            f"{_LIMIT} is {limit!r}", hint="it is a number of milliseconds, such as 600000"
        )
    return min(PATIENCE_SECONDS, milliseconds / 1000 * _MARGIN)


async def _lead(setup: Setup, request: Lead, wire: Wire, patience_s: float) -> int:
    seat = Seat()
    frontend = ClientFrontend(seat, wire, patience_s)
    with _signals_leave(seat), run_log(setup):
        async with open_app(
            await _options(setup, request),
            setup.settings,
            setup.plugins,
            paths=setup.paths,
            frontend=_spec(interactive=request.on_ask is None),
            trusted=setup.trusted,
            snapshot=setup.snapshot,
            external=seat.spec,
            leaders=client_processes(wire),
        ) as app:
            return await frontend.run(app)


@contextmanager
def _signals_leave(seat: Seat) -> Iterator[None]:
    """Take signals as the client's leave: Claude Code sends two of them, and closes nothing."""
    loop = asyncio.get_running_loop()
    signals = ending_signals()
    for number in signals:
        loop.add_signal_handler(number, seat.leave)
    try:
        yield
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


def _spec(*, interactive: bool) -> FrontendSpec:
    return FrontendSpec(
        name="mcp",
        summary="The client leads; a person may attach.",
        interactive=interactive,
        priority=0,
        factory="prsm_core.cli.leading:ClientFrontend",
    )


async def _options(setup: Setup, request: Lead) -> RunOptions:
    options = RunOptions(
        task=TASK,
        workspace=str(setup.paths.workspace),
        provider=request.provider,
        model=request.model,
        mode=PermissionMode(request.mode or setup.settings.defaults.mode),
        on_ask=request.on_ask or "deny",
        unattended_s=request.unattended_s,
    )
    if request.session is None:
        return options
    async with open_session(request.workspace, request.session) as (_, info):
        return replace(options, session=info.session_id)


class ClientFrontend(Frontend):
    """Lets the client lead one run, from its first frame to its last."""

    def __init__(self, seat: Seat, wire: Wire, patience_s: float) -> None:
        self._seat = seat
        self._wire = wire
        self._patience_s = patience_s

    async def run(self, app: AppHandle) -> int:
        """Serve until the client leaves, or the run ends otherwise; return its exit code."""
        run = await app.start_run(app.options.task or TASK)
        async with asyncio.TaskGroup() as group:
            result = group.create_task(run.result(), name="run")
            serving = group.create_task(self._speak(app), name="mcp client")
            await asyncio.wait({result, serving}, return_when=asyncio.FIRST_COMPLETED)
            self._seat.leave()
            await asyncio.wait({result})
            serving.cancel()
        return result.result().exit_code

    async def _speak(self, app: AppHandle) -> None:
        host = ClientHost(await self._seat.host(), app)
        asker = ClientAsker(app)
        _log.info("an MCP client leads")
        async with asyncio.TaskGroup() as group:
            following = group.create_task(asker.follow(), name="what waits for the client's user")
            await serve_stdio(
                host,
                self._wire,
                patience_s=self._patience_s,
                instructions="\n\n".join(filter(None, (INSTRUCTIONS, self._seat.brief))),
                asker=asker,
            )
            following.cancel()
        _log.info("the MCP client has left")


class ClientHost:
    """The master's tools as the client sees them: it is told what waits for a person."""

    def __init__(self, host: AgentHost, app: AppHandle) -> None:
        self._host = host
        self._app = app

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """The tools of the master."""
        return self._host.tools

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        call_id: str | None = None,
        patience_s: float | None = None,
    ) -> ToolOutcome:
        """Call a tool; see AgentHost."""
        outcome = await self._host.call_tool(
            name, arguments, call_id=call_id, patience_s=patience_s
        )
        # The outcome is given: nothing may wait from here on, for who is cut off loses it.
        waiting = await self._app.requests()
        return with_notice(outcome, _notice(waiting)) if waiting else outcome


def _notice(requests: Sequence[Mapping[str, Any]]) -> str:
    """Return what the client should tell its user."""
    asks = "; ".join(_subject(request) for request in requests)
    return (
        f"Waiting for your user: {asks}. Tell them that `prsm attach` in a second terminal lets "
        "them answer; without an answer it will be refused."
    )


def _subject(request: Mapping[str, Any]) -> str:
    if request["kind"] == "question":
        return f"{request['name']} asks: {request['question']}"
    what = request["command"] or ", ".join(request["paths"]) or request["reason"]
    return f"{request['name']} asks permission for {request['tool']}: {what}"
