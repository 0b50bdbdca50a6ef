"""A socket as the pair of message streams that MCP's server reads and writes."""

from __future__ import annotations

import json
import logging
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from prsm_core import LineTooLongError
from prsm_mcp.wire import encode, mended

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator

    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.shared.message import SessionMessage

    from prsm_mcp.wire import LineReader

    Streams = tuple[
        MemoryObjectReceiveStream[SessionMessage | Exception],
        MemoryObjectSendStream[SessionMessage],
    ]

_log = logging.getLogger("prsm.toolserver")

_NOT_A_REQUEST = -32600  # JSON-RPC's code
_TOO_LONG = encode(
    {
        "jsonrpc": "2.0",
        "id": None,
        "error": {"code": _NOT_A_REQUEST, "message": "the message is too long"},
    }
)


@asynccontextmanager
async def open_streams(lines: LineReader, writer: asyncio.StreamWriter) -> AsyncIterator[Streams]:
    """Pump messages between a socket and the streams it yields.

    The peer's end of file ends the stream of what is read; there is no time limit, since a tool
    may wait for hours.
    """
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
    """Return a message, or None for a line that is none.

    Half of a surrogate pair, which models do write, is mended rather than refused.
    """
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
