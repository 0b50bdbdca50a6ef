"""The socket at which Codex's tool hook asks whether a call may run, and who answers there."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from prsm_codex import hooks
from prsm_core.errors import ProviderNotAvailableError
from prsm_core.interfaces.deadline import deadline
from prsm_core.interfaces.local_socket import bind_private

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prsm_core.interfaces.provider import ProviderServices

_TOKEN_BYTES = 32
_MAX_TOKEN = 1024  # bytes, more than one has
_MAX_CALL = 32 * 2**20  # bytes; the arguments of one call
_MAX_OPEN = 512  # calls that are being asked for
_READ_SECONDS = 20.0  # for a client to say what is called
_CHUNK = 1 << 16


class Asker(Protocol):
    """Who answers for the calls of one Codex process."""

    async def on_hook(self, payload: Mapping[str, Any]) -> str | None:
        """Decide about a call; return why it may not run, None when it may."""
        ...


class Gate:
    """Listens in a private folder. What is not answered with `allow` does not run.

    A token says for which process a call is asked; it is given by environment. `client` is the
    program that asks, and `seconds` how long it waits for an answer.
    """

    def __init__(
        self,
        folder: Path,
        services: ProviderServices,
        *,
        client: Path = hooks.CLIENT,
        seconds: float = hooks.ANSWER_SECONDS,
    ) -> None:
        self._folder = folder
        self._services = services
        self._client = client
        self._seconds = seconds
        self._askers: dict[bytes, Asker] = {}
        self._open = 0
        self._opening = asyncio.Lock()
        self._server: asyncio.Server | None = None
        self._path = folder / f"hook-{os.getpid()}-{secrets.token_hex(4)}.sock"

    async def admit(self, asker: Asker) -> dict[str, str]:
        """Let a process ask; return the environment that it needs for that."""
        await self._listen()
        token = secrets.token_hex(_TOKEN_BYTES)
        self._askers[token.encode()] = asker
        return hooks.environment(self._client, self._path, token, self._seconds)

    def dismiss(self, asker: Asker) -> None:
        """Refuse whatever a process still asks."""
        self._askers = {token: one for token, one in self._askers.items() if one is not asker}

    async def aclose(self) -> None:
        """Stop listening; what is still asked is refused."""
        self._askers.clear()
        if self._server is not None:
            self._server.close()
            self._server = None
            self._path.unlink(missing_ok=True)

    async def _listen(self) -> None:
        async with self._opening:
            if self._server is not None:
                return
            _sweep(self._folder)
            try:
                bound = bind_private(self._path)
            except OSError as error:
                raise ProviderNotAvailableError(
                    f"no socket for Codex's tool hook: {error}",
                    hint="Set `enforcement: approval` to do without the hook.",
                ) from error
            self._server = await asyncio.start_unix_server(self._accept, sock=bound)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._open >= _MAX_OPEN:
            writer.close()
            return
        self._open += 1
        self._services.start_soon(self._serve, reader, writer, name="codex tool hook")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(ConnectionError):
                async with deadline(self._services, _READ_SECONDS):
                    raw = await _read(reader)
                writer.write(await self._answer(raw))
                await writer.drain()
        except TimeoutError:
            return  # nothing was asked: closed without an answer
        finally:
            self._open -= 1
            writer.close()

    async def _answer(self, raw: bytes) -> bytes:
        token, _, call = raw.partition(b"\n")
        asker = self._find(token[:_MAX_TOKEN])
        if asker is None or len(raw) > _MAX_CALL:
            why = "too long to be checked" if asker else "the token is not one of this engine"
            return _denied(why)
        try:
            payload = json.loads(call)
        except (ValueError, RecursionError):
            return _denied("the call cannot be read")
        if not isinstance(payload, dict):
            return _denied("the call cannot be read")
        reason = await asker.on_hook(payload)
        return b"allow\n" if reason is None else _denied(reason)

    def _find(self, token: bytes) -> Asker | None:
        found = None
        for known, asker in self._askers.items():  # all of them, however early one fits
            if hmac.compare_digest(known, token):
                found = asker
        return found


def _denied(reason: str) -> bytes:
    return b"deny\n" + hooks.denial(reason).encode()


async def _read(reader: asyncio.StreamReader) -> bytes:
    """Return all that a client says, or a little more than it may say."""
    raw = bytearray()
    while len(raw) <= _MAX_CALL and (chunk := await reader.read(_CHUNK)):
        raw += chunk
    return bytes(raw)


def _sweep(folder: Path) -> None:
    """Remove the sockets of engines that have died."""
    for path in folder.glob("hook-*.sock"):
        owner = path.name.split("-")[1]
        if (
            owner.isdecimal()
            and not Path(f"/proc/{owner}").exists()
            and Path("/proc/self").exists()
        ):
            path.unlink(missing_ok=True)
