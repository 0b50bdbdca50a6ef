"""The tool server on this process's own stdin and stdout: a client started it and leads the run.

Only MCP's frames go to stdout. What anything else prints there, a plugin or a library, goes to
stderr instead, and whatever reads stdin finds it empty.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import socket
import stat
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from prsm_core.engine.processes.table import find_lineage, process_identity
from prsm_core.errors import ConfigError
from prsm_core.kit.local_socket import peer_credentials
from prsm_core.toolserver.server import load_mcp, serve
from prsm_core.toolserver.streams import open_streams
from prsm_core.toolserver.wire import LineReader

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from prsm_core.engine.processes.table import ProcessIdentity
    from prsm_core.toolserver.elicitation import Asker
    from prsm_core.toolserver.server import ToolHost

_FIRST_FREE = 3  # below are the standard descriptors


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """The descriptors that lead to the client; `serve_stdio` closes them."""

    incoming: int
    outgoing: int


def take_stdio() -> Wire:
    """Keep stdin and stdout for the client alone, from now on.

    Raises:
        ConfigError: no program is at the other end.
    """
    if sys.stdin is None or os.isatty(0) or not _is_stream(1):
        raise ConfigError(
            "there is no MCP client on stdin and stdout",
            hint="a client starts this command: claude mcp add --scope user prsm -- prsm mcp",
        )
    wire = Wire(incoming=_moved(0), outgoing=_moved(1))
    empty = os.open(os.devnull, os.O_RDWR)
    os.dup2(empty, 0)
    os.dup2(empty if sys.stderr is None else 2, 1)
    os.close(empty)
    return wire


def client_processes(wire: Wire) -> tuple[ProcessIdentity, ...]:
    """Return the processes that are the client, by the kernel's word; at least the parent.

    Between the client and this process may be wrappers, such as a shell or `uv run`. So it is the
    parent, who made the sockets that lead to the client, and every ancestor that holds its pipes.
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
    """Return whether a process has a pipe open; one that cannot be looked at has none."""
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


async def serve_stdio(
    host: ToolHost,
    wire: Wire,
    *,
    patience_s: float | None = None,
    instructions: str | None = None,
    asker: Asker | None = None,
) -> None:
    """Serve the tools of an agent until the client closes its side; see `serve`."""
    await load_mcp()
    async with _opened(wire) as (reader, writer), open_streams(LineReader(reader), writer) as pair:
        await serve(host, *pair, patience_s=patience_s, instructions=instructions, asker=asker)


@asynccontextmanager
async def _opened(wire: Wire) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    incoming = os.fdopen(wire.incoming, "rb", buffering=0)
    outgoing = os.fdopen(wire.outgoing, "wb", buffering=0)
    with incoming, outgoing:
        sending, flow = await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), outgoing
        )
        receiving: asyncio.BaseTransport | None = None
        try:
            if _is_stream(wire.incoming):
                receiving, _ = await loop.connect_read_pipe(
                    lambda: asyncio.StreamReaderProtocol(reader), incoming
                )
            else:  # a file: it never blocks, and the loop cannot wait for it
                reader.feed_data(incoming.read())
                reader.feed_eof()
            yield reader, asyncio.StreamWriter(sending, flow, None, loop)
        finally:
            sending.close()
            if receiving is not None:
                receiving.close()


def _is_stream(descriptor: int) -> bool:
    """Whether a program can be at the other end."""
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:  # the process was started without it
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _moved(descriptor: int) -> int:
    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE)
