"""A Unix socket for one agent: a line is a request, a line back its answer.

Requests of one connection are answered as they are done, each with its id. Who closes its end for
writing still gets the answers; what was half a line then is dropped.
"""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from prsm_core import OrchestrationError, ProviderNotAvailableError, ToolInputError
from prsm_protocols.bridge.wire import MAX_LINE, read_request, refusal, write_answer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from prsm_core import ProviderServices
    from prsm_protocols.bridge.desk import Desk
    from prsm_protocols.bridge.wire import Answer

MAX_CLIENTS = 32  # connections of one agent
MAX_ASKED = 32  # lines of one connection without an answer; then it is read no further


class Client(asyncio.Protocol):
    """One connection; `clients` are those of the same socket that are open."""

    def __init__(self, desk: Desk, services: ProviderServices, clients: set[Client]) -> None:
        self._desk = desk
        self._services = services
        self._clients = clients
        self._rest = b""
        self._asked = 0
        self._is_over = False  # it sends no more
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a connection, if there is room for it."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - it is a stream
        self._transport = transport
        if len(self._clients) >= MAX_CLIENTS:
            error = OrchestrationError(
                f"{MAX_CLIENTS} connections of this agent are open",
                hint="close those that are not needed",
                code="rate_limited",
            )
            self._say(refusal("", error))
            self._is_over = True
            transport.close()
            return
        self._clients.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection; what it asked goes on."""
        self._is_over = True
        self._clients.discard(self)

    def eof_received(self) -> bool:
        """Stay open for as long as an answer is owed."""
        self._is_over = True
        return self._asked > 0

    def data_received(self, data: bytes) -> None:
        """Take lines; one that is too long is refused, and ends the connection."""
        if self._is_over:
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if line.strip():
                self._ask(line)
        if len(self._rest) > MAX_LINE:
            self._ask(self._rest)
            self._rest, self._is_over = b"", True

    def _ask(self, line: bytes) -> None:
        self._asked += 1
        if self._asked >= MAX_ASKED:
            self._transport.pause_reading()
        self._services.start_soon(self._answer, line, name="aism")

    async def _answer(self, line: bytes) -> None:
        try:
            request = read_request(line)
        except ToolInputError as error:
            self._told(refusal("", error))
            return
        try:
            answer = await self._desk.answer(request)
        except asyncio.CancelledError:
            self.close()  # there is none to come: whoever waits for it must not wait on
            raise
        self._told(answer)

    def _told(self, answer: Answer) -> None:
        self._asked -= 1
        self._say(answer)
        if self._transport.is_closing():  # nobody was there to hear it
            self._desk.undelivered(answer)
        elif self._is_over and not self._asked:
            self._transport.close()
        elif not self._is_over:
            self._transport.resume_reading()

    def _say(self, answer: Answer) -> None:
        if not self._transport.is_closing():
            self._transport.write(write_answer(answer) + b"\n")

    def close(self) -> None:
        """End the connection."""
        self._is_over = True
        self._transport.abort()


@asynccontextmanager
async def open_line(path: Path, desk: Desk, services: ProviderServices) -> AsyncIterator[None]:
    """Listen for an agent's requests until left. Raises ProviderNotAvailableError."""
    clients: set[Client] = set()
    try:
        bound = _bind(path)
    except OSError as error:
        raise ProviderNotAvailableError(
            f"no socket for aism to ask at: {error}",
            hint="look at the folder of PRSM's state; see PRSM_HOME",
        ) from error
    server = await asyncio.get_running_loop().create_unix_server(
        partial(Client, desk, services, clients), sock=bound
    )
    try:
        yield
    finally:
        server.close()
        for client in tuple(clients):
            client.close()
        _unbind(path)


def _unbind(path: Path) -> None:
    path.unlink(missing_ok=True)


def _bind(path: Path) -> socket.socket:
    """Return a socket for its owner alone, bound in place of one that was there.

    Its folder is private, and its address by way of that, for a path may be too long for one.
    """
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        bound.setblocking(False)
        os.fchmod(bound.fileno(), 0o600)
        path.unlink(missing_ok=True)
        bound.bind(f"/proc/self/fd/{folder}/{path.name}")
    except BaseException:
        bound.close()
        raise
    finally:
        os.close(folder)
    return bound
