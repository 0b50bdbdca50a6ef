"""What goes over the bridge's socket: bounded lines, the first of which says who connects.

The first line is `{"agent", "token", "pid"}`, with `patience_s` from a client that cuts calls off.
Its answer is `{"ok": true}`, with the `patience_s` in force if there is one, or `{"error": TEXT}`
before the connection ends. Every other line is MCP's.

A call may wait for hours, so silence alone says nothing about an engine. The answer to a client
that says `"beats": true` tells how long the engine is silent at most, `silence_s`. Then there may
be beats between two lines: a byte that no JSON has. The engine's loop sends them, so one that hangs
does not.
"""

from __future__ import annotations

import json
import logging
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from prsm_core import LineTooLongError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator, Mapping

    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.shared.message import SessionMessage

    Streams = tuple[
        MemoryObjectReceiveStream[SessionMessage | Exception],
        MemoryObjectSendStream[SessionMessage],
    ]

_log = logging.getLogger("prsm.toolserver")

HELLO_LIMIT = 4096  # bytes: nobody has said yet who they are
LINE_LIMIT = 16 << 20
BEAT = b"\0"
BEAT_SECONDS = 60.0
SILENCE_SECONDS = 300.0  # of an engine that beats: beyond that it hangs
_CHUNK = 1 << 16
_MAX_SECONDS = 1e9

TCP_PREFIX = "tcp:"  # an address is a path, or tcp:127.0.0.1:PORT where there are no Unix sockets
_NOT_A_REQUEST = -32600  # JSON-RPC's code


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """Who connects; `pid` is only told, never trusted."""

    agent: str
    token: str = field(repr=False)
    pid: int
    patience_s: float | None = None
    beats: bool = False  # it wants to know whether the engine still works

    @property
    def key(self) -> bytes:
        """Agent and token as one, so that neither counts without the other."""
        return credentials(self.agent, self.token)


def credentials(agent: str, token: str) -> bytes:
    """Return what a connection must prove; JSON may spell text that has no encoding."""
    return json.dumps([agent, token]).encode()


def decode_hello(line: bytes) -> Hello | None:
    """Return who connects; None when the line does not say."""
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict):
        return None
    agent, token, pid = said.get("agent"), said.get("token"), said.get("pid")
    patience = said.get("patience_s")
    if not (isinstance(agent, str) and isinstance(token, str) and isinstance(pid, int)):
        return None
    is_number = type(patience) in (int, float)
    if patience is not None and not (is_number and 0 < patience < _MAX_SECONDS):
        return None
    beats = said.get("beats") is True
    return Hello(agent=agent, token=token, pid=pid, patience_s=patience, beats=beats)


def mended(text: str) -> str:
    """Return a text that can be encoded: half a surrogate pair becomes a replacement character."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def encode(value: Mapping[str, Any]) -> bytes:
    """Return a value as one line."""
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


class LineReader:
    """Reads lines of a limited length from a stream."""

    def __init__(self, stream: asyncio.StreamReader) -> None:
        self._stream = stream
        self._held = bytearray()

    @property
    def is_at_end(self) -> bool:
        """Whether the peer has closed its side and all it sent is read."""
        return self._stream.at_eof()

    async def line(self, limit: int = LINE_LIMIT) -> bytes | None:
        """Return a line, None at the end of the stream; raise LineTooLongError past `limit`."""
        seen = 0
        while (end := self._held.find(b"\n", seen)) < 0 and len(self._held) <= limit:
            seen = len(self._held)
            chunk = await self._stream.read(_CHUNK)
            if not chunk:
                return None
            self._held += chunk
        if not 0 <= end <= limit:
            raise LineTooLongError(f"a line has at most {limit} bytes")
        line = bytes(self._held[:end])
        del self._held[: end + 1]
        return line


_TOO_LONG = encode(
    {
        "jsonrpc": "2.0",
        "id": None,
        "error": {"code": _NOT_A_REQUEST, "message": "the message is too long"},
    }
)


@asynccontextmanager
async def open_streams(lines: LineReader, writer: asyncio.StreamWriter) -> AsyncIterator[Streams]:
    """Pump messages between a socket and the streams it yields, until the peer's end of file."""
    import anyio
    from mcp.shared.message import SessionMessage

    to_server, read_stream = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write_stream, from_server = anyio.create_memory_object_stream[SessionMessage](0)
    async with read_stream, write_stream, anyio.create_task_group() as pumps:
        pumps.start_soon(_pump_in, lines, to_server, writer)
        pumps.start_soon(_pump_out, from_server, writer)
        yield read_stream, write_stream
        pumps.cancel_scope.cancel()


async def _pump_in(
    lines: LineReader,
    to_server: MemoryObjectSendStream[SessionMessage | Exception],
    writer: asyncio.StreamWriter,
) -> None:
    import anyio

    with suppress(anyio.BrokenResourceError, OSError):
        async with to_server:
            try:
                while (line := await lines.line()) is not None:
                    if (message := _decode(line)) is not None:
                        await to_server.send(message)
                    elif line.strip():
                        writer.write(_refusal(line))
                        await writer.drain()
            except LineTooLongError as error:
                _log.warning("a connection is closed: %s", error.message)
                writer.write(_TOO_LONG)


def _decode(line: bytes) -> SessionMessage | None:
    """Return the message of a line, if it is one; mend half surrogate pairs, which models write."""
    import mcp_types
    from mcp.shared.message import SessionMessage

    adapter = mcp_types.jsonrpc_message_adapter
    with suppress(ValueError):
        return SessionMessage(adapter.validate_json(line, by_name=False))
    with suppress(ValueError, RecursionError):
        text = mended(json.dumps(json.loads(line), ensure_ascii=False))
        return SessionMessage(adapter.validate_json(text, by_name=False))
    return None


def _refusal(line: bytes) -> bytes:
    """Return the answer to a line that is no message, for its sender may wait for one."""
    request_id = None
    with suppress(ValueError, RecursionError):
        said = json.loads(line)
        if isinstance(said, dict) and isinstance(said.get("id"), str | int):
            request_id = said["id"]
    error = {"code": _NOT_A_REQUEST, "message": "this is no message of JSON-RPC 2.0"}
    return encode({"jsonrpc": "2.0", "id": request_id, "error": error})


async def _pump_out(
    from_server: MemoryObjectReceiveStream[SessionMessage], writer: asyncio.StreamWriter
) -> None:
    with suppress(OSError):  # it has gone
        async with from_server:
            async for sent in from_server:
                message = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
                writer.write(message.encode() + b"\n")
                await writer.drain()
