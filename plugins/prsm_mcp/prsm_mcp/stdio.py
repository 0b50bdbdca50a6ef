"""The tool server on this process's own stdin and stdout: a client started it and leads the run.

Only MCP's frames go to stdout; see `prsm_core.kit.take_stdio`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.kit import open_wire
from prsm_mcp.server import load_mcp, serve
from prsm_mcp.streams import open_streams
from prsm_mcp.wire import LineReader

if TYPE_CHECKING:
    from prsm_core.kit import Wire
    from prsm_mcp.elicitation import Asker
    from prsm_mcp.server import ToolHost


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
