"""Runs an engine whose master, until it leaves, is the client that started this process."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import stat
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from prsm_core.app import open_app
from prsm_core.cli.run_options import UNATTENDED_SECONDS
from prsm_core.cli.running import PRIVATE, Request, ending_signals, run_log, run_options, setup_of
from prsm_core.cli.setup import Setup, tell_quarantined
from prsm_core.domain.turns import AssembledContext, ProviderEvent, StopReason, TurnEnded
from prsm_core.engine.processes.launcher import install_child_watcher
from prsm_core.engine.processes.table import ProcessIdentity, find_lineage, process_identity
from prsm_core.interfaces.frontend import AppHandle, Frontend, FrontendSpec
from prsm_core.interfaces.provider import (
    AgentHost,
    Provider,
    ProviderCapabilities,
    ProviderSession,
    ProviderSpec,
    ProviderStatus,
    SessionRequest,
)
from prsm_core.kit.local_socket import peer_credentials
from prsm_core.kit.stdio import Wire, take_stdio
from prsm_core.loop.output import write_aside
from prsm_core.loop.run import run_to_end

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping

    from prsm_core.cli.launch import Launch

    Speak = Callable[[AgentHost, AppHandle, Wire, str], Awaitable[None]]

_log = logging.getLogger("prsm.cli")

NAME = "mcp-client"


def lead(
    launch: Launch, options: Mapping[str, Any], speak: Speak, *, client: str, hint: str
) -> int:
    """Let the client on stdin and stdout lead a run until it leaves; return the exit code.

    Args:
        launch: The context object of the command.
        options: The values of `lead_options`, without `patience_s`.
        speak: `await speak(host, app, wire, brief)` serves the client until it leaves. `host`
            offers the master's tools; `brief` is the engine's prompt for a master.
        client: The client's name in errors and the log, and the run's task.
        hint: How to start it, for the error if there is no client.

    Raises:
        ConfigError: no program is at the other end, or the configuration is wrong.
    """
    os.umask(PRIVATE)
    wire = take_stdio(client, hint=hint)
    write_aside()
    request = Request(task=f"What the {client} wants done.", **options)
    setup = setup_of(launch, request)
    tell_quarantined(setup.plugins)
    install_child_watcher()
    return run_to_end(_lead(setup, request, wire, speak, client))


async def _lead(setup: Setup, request: Request, wire: Wire, speak: Speak, client: str) -> int:
    seat = Seat()
    frontend = _ClientFrontend(seat, wire, speak, client)
    options = replace(
        await run_options(setup, request),
        unattended_s=request.unattended_s or UNATTENDED_SECONDS,
        command_line={},
    )
    with _signals_leave(seat), run_log(setup):
        async with open_app(
            options,
            setup.settings,
            setup.plugins,
            paths=setup.paths,
            frontend=FrontendSpec(
                name="client",
                summary="The client leads; a person may attach.",
                interactive=request.on_ask is None,
                priority=0,
                factory="prsm_core.cli.leading:_ClientFrontend",
            ),
            trusted=setup.trusted,
            snapshot=setup.snapshot,
            external=seat.spec,
            leaders=_client_processes(wire),
        ) as app:
            return await frontend.run(app)


@contextmanager
def _signals_leave(seat: Seat) -> Iterator[None]:
    """Treat signals as the client leaving: Claude Code sends two of them and closes nothing."""
    loop = asyncio.get_running_loop()
    signals = ending_signals()
    for number in signals:
        loop.add_signal_handler(number, seat.leave)
    try:
        yield
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


class _ClientFrontend(Frontend):
    def __init__(self, seat: Seat, wire: Wire, speak: Speak, client: str) -> None:
        self._seat = seat
        self._wire = wire
        self._speak = speak
        self._client = client

    async def run(self, app: AppHandle) -> int:
        run = await app.runs.start(app.options.task or self._client)
        async with asyncio.TaskGroup() as group:
            result = group.create_task(run.result(), name="run")
            serving = group.create_task(self._serve(app), name=self._client)
            await asyncio.wait({result, serving}, return_when=asyncio.FIRST_COMPLETED)
            self._seat.leave()
            await asyncio.wait({result})
            serving.cancel()
        return result.result().exit_code

    async def _serve(self, app: AppHandle) -> None:
        host = await self._seat.host()
        _log.info("the %s leads", self._client)
        await self._speak(host, app, self._wire, self._seat.brief)
        _log.info("the %s has left", self._client)


def _client_processes(wire: Wire) -> tuple[ProcessIdentity, ...]:
    """Return the client's processes according to the kernel; at least the parent.

    Wrappers such as a shell or `uv run` may stand between. So count the parent, the maker of our
    sockets, and every ancestor that holds our pipes.
    """
    above = [relative.identity for relative in (find_lineage(os.getpid()) or ())[1:]]
    pids = {os.getppid()}
    for descriptor in (wire.incoming, wire.outgoing):
        pids.update(_makers(descriptor))
        pids.update(one.pid for one in above if _holds(one.pid, os.fstat(descriptor)))
    found = (process_identity(pid) for pid in sorted(pids) if pid)
    return tuple(identity for identity in found if identity is not None)


def _makers(descriptor: int) -> Iterator[int]:
    """Yield the process that made a pair of sockets, if the descriptor is one of them."""
    if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
        with socket.socket(fileno=os.dup(descriptor)) as made:
            if made.family == socket.AF_UNIX:
                yield peer_credentials(made).pid


def _holds(pid: int, pipe: os.stat_result) -> bool:
    """Return whether a process has a pipe open; False if it cannot be looked at."""
    if not stat.S_ISFIFO(pipe.st_mode):
        return False
    try:
        return any(_is_same(path, pipe) for path in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False


def _is_same(path: Path, file: os.stat_result) -> bool:
    try:
        return os.path.samestat(path.stat(), file)
    except OSError:  # closed meanwhile
        return False


class Seat(Provider):
    """The master's place and its provider: the client takes it, and leaves it once."""

    capabilities = ProviderCapabilities(resume="none", streams=False)

    def __init__(self) -> None:
        self._host: asyncio.Future[AgentHost] = asyncio.get_running_loop().create_future()
        self._left = asyncio.Event()
        self.brief = ""  # what the engine tells whoever leads

    @property
    def spec(self) -> ProviderSpec:
        """The provider whose agent sits here."""
        return ProviderSpec(
            name=NAME,
            summary="A client that leads its agents over MCP.",
            factory=lambda settings, services: self,
            selectable=False,
        )

    async def host(self) -> AgentHost:
        """Return the agent's host once its turn has begun."""
        return await asyncio.shield(self._host)

    def leave(self) -> None:
        """End the agent's turn."""
        self._left.set()

    @asynccontextmanager
    async def open_session(
        self, request: SessionRequest, host: AgentHost
    ) -> AsyncIterator[ProviderSession]:
        """Open the agent's session; see Provider."""
        self.brief = request.system_prompt
        yield _Lead(host, self)

    async def lasts(self, host: AgentHost) -> None:
        """Offer the host and return once nobody leads any more."""
        if not self._host.done():
            self._host.set_result(host)
        await self._left.wait()

    async def probe(self) -> ProviderStatus:
        """Report what the engine cannot see; see Provider."""
        gap = "what the client does with its own tools is neither seen nor decided here"
        return ProviderStatus(available=True, gaps=(gap,))


class _Lead(ProviderSession):
    """A turn in which the client speaks, and the engine only listens to its calls."""

    def __init__(self, host: AgentHost, seat: Seat) -> None:
        self._host = host
        self._seat = seat

    async def run_turn(self, context: AssembledContext) -> AsyncIterator[ProviderEvent]:
        await self._seat.lasts(self._host)
        yield TurnEnded(StopReason.END_TURN)

    async def interrupt(self) -> None:
        self._seat.leave()
