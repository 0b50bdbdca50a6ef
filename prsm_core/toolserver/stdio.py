"""The tool server on this process's own stdin and stdout: a client started it and leads the run.

Only MCP's frames go to stdout; see kit.stdio.
"""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from prsm_core.engine.processes.table import find_lineage, process_identity
from prsm_core.kit.local_socket import peer_credentials
from prsm_core.kit.stdio import open_wire
from prsm_core.toolserver.server import load_mcp, serve
from prsm_core.toolserver.streams import open_streams
from prsm_core.toolserver.wire import LineReader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prsm_core.engine.processes.table import ProcessIdentity
    from prsm_core.kit.stdio import Wire
    from prsm_core.toolserver.elicitation import Asker
    from prsm_core.toolserver.server import ToolHost


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
    async with (
        open_wire(wire) as (reader, writer),
        open_streams(LineReader(reader), writer) as pair,
    ):
        await serve(host, *pair, patience_s=patience_s, instructions=instructions, asker=asker)
