"""The gate of one agent: where Gemini's hooks ask whether a turn may begin and a tool may run."""

from __future__ import annotations

import asyncio
import hmac
import json
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from prsm_core.interfaces.deadline import deadline
from prsm_core.interfaces.local_socket import bind_private
from prsm_gemini.hook import SOCKET, TOKEN

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from pathlib import Path

    from prsm_core.interfaces.provider import BackgroundTask, ProviderServices

Json = Mapping[str, Any]

_LIMIT = 1 << 26  # bytes; an event holds all that a tool would write
MAX_OPEN = 256  # hooks that wait for an answer
_READ_SECONDS = 20.0  # for a hook to say what it asks


class Gatekeeper(Protocol):
    """Who decides; the answers are those of Gemini's hooks, as JSON values."""

    async def on_hook(self, event: Json) -> Json:
        """Answer an event of a hook."""
        ...


class Gate:
    """Listens on a socket that only the owner of the folder reaches, and with a token only."""

    def __init__(self, folder: Path, services: ProviderServices) -> None:
        self._folder = folder
        self._services = services
        self._token = secrets.token_hex(32)
        self._keeper: Gatekeeper | None = None
        self._server: asyncio.Server | None = None
        self._answering: set[BackgroundTask] = set()

    async def open(self, make_folder: Callable[[], None]) -> None:
        """Begin to listen in a folder that `make_folder`, called in a thread, makes private."""
        bound = await asyncio.to_thread(self._bind, make_folder)
        try:
            self._server = await asyncio.start_unix_server(self._accept, sock=bound, limit=_LIMIT)
        except BaseException:
            bound.close()
            raise

    async def close(self) -> None:
        """Refuse whatever is open, and listen no more."""
        self.turn_over()
        if self._server is not None:
            self._server.close()
            (self._folder / SOCKET).unlink(missing_ok=True)

    def turn_begins(self, keeper: Gatekeeper) -> None:
        """Let a turn decide from now on."""
        self._keeper = keeper

    def turn_over(self) -> None:
        """Refuse everything until the next turn, also what is being decided."""
        self._keeper = None
        for task in tuple(self._answering):
            task.cancel()

    def _bind(self, make_folder: Callable[[], None]) -> socket.socket:
        make_folder()
        path = self._folder / TOKEN
        path.unlink(missing_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(self._token)
        return bind_private(self._folder / SOCKET)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._answering = {task for task in self._answering if not task.done()}
        if len(self._answering) >= MAX_OPEN:
            writer.close()  # a refusal
            return
        task = self._services.start_soon(self._receive, reader, writer, name="gemini hook")
        self._answering.add(task)

    async def _receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one event; a connection that is closed without an answer is a refusal."""
        try:
            # It has gone, or says nothing, or what nobody understands.
            with suppress(OSError, ValueError, RecursionError):
                async with deadline(self._services, _READ_SECONDS):
                    line = await reader.readline()
                answer = await self._answer(line)
                writer.write(json.dumps(answer).encode() + b"\n")
                await writer.drain()
        finally:
            writer.close()

    async def _answer(self, line: bytes) -> Json:
        said = json.loads(line)
        token = said.get("token") if isinstance(said, dict) else None
        if not hmac.compare_digest(str(token).encode(errors="replace"), self._token.encode()):
            return refused("a wrong token")
        event = said.get("event")
        if self._keeper is None or not isinstance(event, dict):
            return refused("no turn is running")
        return await self._keeper.on_hook(event)


def refused(reason: str) -> dict[str, Any]:
    """Return the answer of a hook that refuses."""
    return {"decision": "deny", "reason": reason}
