"""The socket at which the hooks of a vendor's program ask, and who answers there."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import secrets
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from prsm_core.errors import ProviderNotAvailableError
from prsm_core.kit.clocks import deadline
from prsm_core.kit.local_socket import listen_private, shown_to_clients

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from prsm_core.interfaces.provider import BackgroundTask, ProviderServices

    # Takes an event, and returns what the hook says to the vendor's program, in that one's words.
    Asker = Callable[[Mapping[str, Any]], Awaitable[str]]

HOOK_CLIENT = Path(__file__).with_name("hook_client.py")
ANSWER_SECONDS = 6 * 24 * 3600.0  # then the client gives up and refuses

MAX_ASKED = 256  # events of one asker that wait for an answer
MAX_READ = 512  # connections that have not said yet what they ask
_TOKEN_BYTES = 32
_MAX_TOKEN = 1024  # bytes, more than one has
_MAX_EVENT = 32 * 2**20  # bytes; the arguments of one call
_READ_SECONDS = 20.0  # for a client to say what it asks
_CHUNK = 1 << 16


class _Admitted:
    def __init__(self, asker: Asker) -> None:
        self.asker = asker
        self.deciding: set[_Connection] = set()


class _Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.task: BackgroundTask


class HookGate:
    """Listens in a private folder, from the first asker on; one gate serves a whole provider.

    A token, given by environment, tells which process asks. `refusal(reason)` returns what a hook
    says to refuse; a connection closed without an answer refuses too. `client` is the program that
    asks, and `seconds` how long it waits.

    `command` is the vendor's hook. Vendors let a call run when its hook fails, is killed or not
    found; exit code 2 with a text on stderr refuses. The text is the same for every engine: a
    vendor may ask to trust it.
    """

    command: Final = (
        """/bin/sh -c '"$PRSM_HOOK_PYTHON" -I -S "$PRSM_HOOK_CLIENT" """
        """|| { echo "It could not be checked, so it did not run." >&2; exit 2; }'"""
    )

    def __init__(
        self,
        folder: Path,
        services: ProviderServices,
        *,
        refusal: Callable[[str], str],
        client: Path = HOOK_CLIENT,
        seconds: float = ANSWER_SECONDS,
    ) -> None:
        self._folder = folder
        self._services = services
        self._refusal = refusal
        self._client = client
        self._seconds = seconds
        self._admitted: dict[bytes, _Admitted] = {}  # by what is made of the token
        self._reading = 0
        self._opening = asyncio.Lock()
        self._server: asyncio.Server | None = None
        self._path = folder / f"hook-{os.getpid()}-{secrets.token_hex(4)}.sock"

    async def admit(self, asker: Asker) -> dict[str, str]:
        """Let a process ask; return the environment that `command` needs for that.

        `asker` takes an event and returns what the hook says to the vendor's program. Raises
        ProviderNotAvailableError without a socket.
        """
        await self._listen()
        token = secrets.token_hex(_TOKEN_BYTES)
        self._admitted[_digest(token.encode())] = _Admitted(asker)
        return {
            "PRSM_HOOK_PYTHON": sys.executable,
            "PRSM_HOOK_CLIENT": str(self._client),
            "PRSM_HOOK_SOCKET": str(self._path),
            "PRSM_HOOK_TOKEN": token,
            "PRSM_HOOK_SECONDS": f"{self._seconds:g}",
        }

    @property
    def shown(self) -> dict[str, str]:
        """What `command` needs to see where it runs in a box; see `Box.mounts`."""
        return shown_to_clients(self._client, self._path)

    def dismiss(self, asker: Asker) -> None:
        """Refuse whatever a process still asks, also what is being decided."""
        for digest, admitted in tuple(self._admitted.items()):
            if admitted.asker == asker:
                del self._admitted[digest]
                for connection in admitted.deciding:
                    connection.task.cancel()

    async def aclose(self) -> None:
        """Stop listening; what is still asked is refused."""
        for admitted in tuple(self._admitted.values()):
            self.dismiss(admitted.asker)
        if self._server is not None:
            self._server.close()
            self._server = None
            self._path.unlink(missing_ok=True)

    async def _listen(self) -> None:
        async with self._opening:
            if self._server is not None:
                return
            try:
                _sweep(self._folder)
                self._server = await listen_private(self._path, self._accept, self._refuse)
            except OSError as error:
                raise ProviderNotAvailableError(
                    f"no socket for the hooks to ask at: {error}",
                    hint="Look at the folder of PRSM's state; see PRSM_HOME.",
                ) from error

    def _refuse(self, writer: asyncio.StreamWriter) -> None:
        writer.write(_frame(self._refusal("this engine belongs to another user")))

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._reading >= MAX_READ:
            writer.close()
            return
        self._reading += 1
        connection = _Connection(reader, writer)
        connection.task = self._services.start_soon(self._serve, connection, name="hook")

    async def _serve(self, connection: _Connection) -> None:
        try:
            with suppress(ConnectionError, TimeoutError):  # it has gone, or asks nothing
                told = await self._read(connection.reader)
                connection.writer.write(_frame(await self._answer(connection, told)))
                await connection.writer.drain()
        finally:
            connection.writer.close()

    async def _read(self, reader: asyncio.StreamReader) -> bytes:
        told = bytearray()
        try:
            async with deadline(self._services, _READ_SECONDS):
                while len(told) <= _MAX_EVENT and (chunk := await reader.read(_CHUNK)):
                    told += chunk
        finally:
            self._reading -= 1
        return bytes(told)

    async def _answer(self, connection: _Connection, told: bytes) -> str:
        token, _, text = told.partition(b"\n")
        admitted = self._admitted.get(_digest(token[:_MAX_TOKEN]))
        if admitted is None:
            return self._refusal("the token is not one of this engine")
        if len(told) > _MAX_EVENT:
            return self._refusal("it is too long to be checked")
        if len(admitted.deciding) >= MAX_ASKED:
            return self._refusal("too much is being decided already")
        try:
            event = json.loads(text)
        except (ValueError, RecursionError):
            event = None
        if not isinstance(event, dict):
            return self._refusal("it cannot be read")
        admitted.deciding.add(connection)
        try:
            return await admitted.asker(event)
        finally:
            admitted.deciding.discard(connection)


def _frame(answer: str) -> bytes:
    told = answer.encode(errors="replace")
    return b"%d\n%b" % (len(told), told)


def _digest(token: bytes) -> bytes:
    """Return what a token is found by: how long that takes says nothing about the token."""
    return hashlib.sha256(token).digest()


def _sweep(folder: Path) -> None:
    has_proc = Path("/proc/self").exists()
    for path in folder.glob("hook-*.sock"):
        owner = path.name.split("-")[1]
        if has_proc and owner.isdecimal() and not Path(f"/proc/{owner}").exists():
            path.unlink(missing_ok=True)
