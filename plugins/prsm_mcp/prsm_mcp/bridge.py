"""The bridge: one socket per engine, over which command lines reach the tools of their agents.

Only this user may connect. A connection proves by a token which agent it speaks for, and speaks MCP
from then on. Several may carry one token, which is valid for as long as its endpoint is open.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
import socket
import sys
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from prsm_core import ConfigError, ControlError, LineTooLongError, McpEndpoint
from prsm_core.kit import Background, first_of, listen_private, make_private, shown_to_clients
from prsm_mcp.server import load_mcp, patience_in_force, serve
from prsm_mcp.wire import (
    BEAT,
    BEAT_SECONDS,
    HELLO_LIMIT,
    SILENCE_SECONDS,
    TCP_PREFIX,
    LineReader,
    credentials,
    decode_hello,
    encode,
    open_streams,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from prsm_core import Clock, ToolOutcome, ToolSpec
    from prsm_mcp.server import ToolHost
    from prsm_mcp.wire import Hello

    OpenEndpoint = Callable[..., AbstractAsyncContextManager[McpEndpoint]]

_log = logging.getLogger("prsm.toolserver")

HAS_UNIX_SOCKETS = hasattr(socket, "AF_UNIX")
PROXY = Path(__file__).with_name("proxy.py")
HELLO_SECONDS = 10.0
SETTLE_SECONDS = 10.0
MAX_STRANGERS = 32  # connections that have not said yet who they are
MAX_CONNECTIONS = 16  # with one token
_TOKEN_BYTES = 32


@dataclass(slots=True, eq=False)
class _Door:
    """An open endpoint, and the host that its connections are served."""

    host: ToolHost
    key: bytes = field(repr=False)
    patience_s: float | None
    connected: asyncio.Future[None]
    connections: set[_Connection] = field(default_factory=set)
    end_turn: Callable[[], Awaitable[None]] | None = None

    @property
    def tools(self) -> Sequence[ToolSpec]:
        return self.host.tools

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any], **options: Any
    ) -> ToolOutcome:
        outcome = await self.host.call_tool(name, arguments, **options)
        if outcome.ends_turn and self.end_turn is not None:
            await self.end_turn()
        return outcome

    async def until_connected(self) -> None:
        await asyncio.shield(self.connected)

    def before_end(self, end_turn: Callable[[], Awaitable[None]]) -> None:
        self.end_turn = end_turn

    def enter(self, connection: _Connection) -> None:
        self.connections.add(connection)
        if not self.connected.done():
            self.connected.set_result(None)

    async def settle(self) -> None:
        """Wait for the end of connections without a peer: others may repeat their requests."""
        ending = {c.task for c in self.connections if c.lines.is_at_end}
        if ending:
            await asyncio.wait(ending)

    async def close(self) -> None:
        """Admit nobody any more, and end the connections."""
        if not self.connected.done():
            self.connected.set_exception(
                ControlError("the endpoint was closed before a proxy connected", code="no_answer")
            )
            self.connected.exception()  # perhaps nobody waits for it
        ending = {connection.task for connection in self.connections}
        for task in ending:
            task.cancel()
        if ending:
            await asyncio.wait(ending)


@dataclass(slots=True, eq=False)
class _Connection:
    task: asyncio.Task[None]
    lines: LineReader


class Bridge:
    """Listens at `path`, or on the loopback interface, from the first endpoint on."""

    def __init__(self, path: Path, clock: Clock, *, unix: bool = HAS_UNIX_SOCKETS) -> None:
        self.refused = 0  # connections turned away
        self._path = path
        self._clock = clock
        self._unix = unix
        self._background = Background(_report)
        self._opening = asyncio.Lock()
        self._server: asyncio.Server | None = None
        self._address = ""
        self._doors: set[_Door] = set()
        self._strangers = 0
        self._is_closed = False

    async def __aenter__(self) -> Self:
        await self._background.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._is_closed = True
        if self._server is not None:
            self._server.close()
            if self._unix:
                self._path.unlink(missing_ok=True)
        for door in tuple(self._doors):
            await door.close()
        self._doors.clear()
        await self._background.__aexit__(None, None, None)

    @asynccontextmanager
    async def endpoint(
        self, host: ToolHost, agent: str, *, patience_s: float | None = None
    ) -> AsyncIterator[McpEndpoint]:
        """Offer an agent's tools in the block; raise ConfigError if nothing can listen."""
        await self._listen()
        token = secrets.token_hex(_TOKEN_BYTES)
        connected: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        door = _Door(host, credentials(agent, token), patience_s, connected)
        self._doors.add(door)
        try:
            yield McpEndpoint(
                argv=(sys.executable, "-I", "-S", str(PROXY)),
                env={"PRSM_SOCKET": self._address, "PRSM_AGENT": agent, "PRSM_TOKEN": token},
                until_connected=door.until_connected,
                shown=shown_to_clients(PROXY, self._path if self._unix else None),
                before_end=door.before_end,
            )
        finally:
            self._doors.discard(door)
            await door.close()

    async def _listen(self) -> None:
        async with self._opening:
            if self._server is not None:
                return
            if self._unix:
                self._server, self._address = await self._listen_unix(), str(self._path)
            else:  # only the token protects
                self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
                port = self._server.sockets[0].getsockname()[1]
                self._address = f"{TCP_PREFIX}127.0.0.1:{port}"
            self._background.launch(load_mcp(), name="import of mcp")

    async def _listen_unix(self) -> asyncio.Server:
        """Listen on a socket of mode 0600 in a folder of mode 0700.

        A socket of a dead engine is replaced. The path may be longer than the 107 bytes that an
        address holds: proxies know the same way around it.
        """
        try:
            make_private(self._path.parent).chmod(0o700)
            return await listen_private(self._path, self._accept, self._refuse_foreign)
        except OSError as error:
            raise ConfigError(
                f"{self._path}: cannot be listened on: {error.strerror}",
                hint="PRSM_HOME names another folder for all state",
            ) from error

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_closed:  # the connection was on its way already
            writer.close()
            return
        if self._strangers >= MAX_STRANGERS:
            self._refuse(writer, "too many connections have not said who they are")
            writer.close()
            return
        self._strangers += 1
        task = self._background.start(self._receive(reader, writer), name="bridge connection")
        task.add_done_callback(lambda _: _drop(writer))

    async def _receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = LineReader(reader)
        try:
            hello = await self._hello(lines)
        finally:
            self._strangers -= 1
        door, refusal = await self._admit(hello)
        if door is None:
            self._refuse(writer, refusal)
            return
        task = asyncio.current_task()
        if task is None or hello is None:
            raise RuntimeError("a connection needs a task")
        connection = _Connection(task, lines)
        door.enter(connection)
        try:
            await self._serve(door, hello, lines, writer)
        finally:
            door.connections.discard(connection)

    async def _hello(self, lines: LineReader) -> Hello | None:
        line: bytes | None = None

        async def read() -> None:
            nonlocal line
            with suppress(LineTooLongError, OSError):
                line = await lines.line(HELLO_LIMIT)

        await first_of(self._clock, HELLO_SECONDS, read)
        return None if line is None else decode_hello(line)

    async def _admit(self, hello: Hello | None) -> tuple[_Door | None, str]:
        if hello is None:
            return None, "it did not say who it is"
        # Compare all keys, however early one matches.
        matches = [door for door in self._doors if hmac.compare_digest(door.key, hello.key)]
        if not matches:
            return None, f"wrong token for agent {hello.agent[:64]!a} (pid {hello.pid})"
        door = matches[0]
        if not await first_of(self._clock, SETTLE_SECONDS, door.settle):
            return None, "calls of a lost connection have not ended yet"
        if door not in self._doors:
            return None, "the agent has ended"
        if len(door.connections) >= MAX_CONNECTIONS:
            return None, f"{MAX_CONNECTIONS} connections carry this token already"
        return door, ""

    def _refuse_foreign(self, writer: asyncio.StreamWriter) -> None:
        self._refuse(writer, "it belongs to another user")

    def _refuse(self, writer: asyncio.StreamWriter, why: str) -> None:
        self.refused += 1
        _log.warning("connection %d was refused: %s", self.refused, why)
        writer.write(encode({"error": why}))

    async def _serve(
        self, door: _Door, hello: Hello, lines: LineReader, writer: asyncio.StreamWriter
    ) -> None:
        patience = patience_in_force(door.host, door.patience_s, hello.patience_s)
        answer = {"ok": True} | ({} if patience is None else {"patience_s": patience})
        writer.write(encode(answer | ({"silence_s": SILENCE_SECONDS} if hello.beats else {})))
        beats = None
        if hello.beats:
            beats = self._background.start(self._beat(writer), name="beats of a connection")
        try:
            await load_mcp()
            async with open_streams(lines, writer) as (read_stream, write_stream):
                await serve(door, read_stream, write_stream, patience_s=patience)
        finally:
            if beats is not None:
                beats.cancel()

    async def _beat(self, writer: asyncio.StreamWriter) -> None:
        """Show a client that the engine works, however long its calls wait."""
        while True:
            await self._clock.sleep(BEAT_SECONDS)
            if not writer.transport.get_write_buffer_size():  # or it has more to read than a beat
                writer.write(BEAT)


@asynccontextmanager
async def open_bridge(path: Path, clock: Clock) -> AsyncIterator[OpenEndpoint]:
    """Open a bridge for an engine; yield `Bridge.endpoint`, which offers an agent's tools."""
    async with Bridge(path, clock) as bridge:
        yield bridge.endpoint


def _drop(writer: asyncio.StreamWriter) -> None:
    """Close a transport. What its peer does not take is lost."""
    if writer.transport.get_write_buffer_size():
        writer.transport.abort()
    else:
        writer.close()


def _report(name: str, error: Exception) -> None:
    _log.error("%s failed", name, exc_info=error)
