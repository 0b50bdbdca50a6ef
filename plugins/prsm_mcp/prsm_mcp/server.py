"""The tools of one agent as an MCP server, over any pair of streams.

A call runs in a task of its own: MCP's library cancels a handler again and again until it ends. The
engine expects one cancellation, and itself cancels the task that calls it.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
from typing import TYPE_CHECKING, Any, Protocol

from prsm_core import OrchestrationError, PrsmError, ToolOutcome, __version__
from prsm_mcp.elicitation import Elicitation, can_elicit, ended
from prsm_mcp.wire import mended

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    import mcp_types
    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel import Server
    from mcp.shared._stream_protocols import ReadStream, WriteStream
    from mcp.shared.message import SessionMessage

    from prsm_core import ToolSpec
    from prsm_mcp.elicitation import Asker

_log = logging.getLogger("prsm.toolserver")

SERVER_NAME = "prsm"
WAIT_TOOL = "wait_for_message"  # takes the token of a call that goes on
_LIBRARIES = ("mcp.server.lowlevel", "mcp_types", "anyio", "mcp.shared.message")


class ToolHost(Protocol):
    """The tools of an agent. Every AgentHost is one."""

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """The tools to list."""

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        call_id: str | None = None,
        patience_s: float | None = None,
    ) -> ToolOutcome:
        """Check the name and the arguments and run a tool; see AgentHost."""


async def load_mcp() -> None:
    """Import MCP's libraries in a thread: it takes a second, which must not stop the loop."""
    await asyncio.to_thread(lambda: [importlib.import_module(name) for name in _LIBRARIES])


async def serve(
    host: ToolHost,
    read_stream: ReadStream[SessionMessage | Exception],
    write_stream: WriteStream[SessionMessage],
    *,
    patience_s: float | None = None,
    instructions: str | None = None,
    asker: Asker | None = None,
) -> None:
    """Speak MCP until the client closes its side. Its open calls are then cancelled.

    The client's first request decides about the generation of the protocol. A call that takes
    longer than `patience_s` is answered `pending` with a token and outlives the connection: see
    `AgentHost.call_tool`. `instructions` are for the client's model. With a patience, the client's
    user is asked what the `asker` knows to wait for a person, if the client can do that.
    """
    async with asyncio.TaskGroup() as calls:
        patience_s = patience_in_force(host, patience_s)
        elicitation = None if asker is None or patience_s is None else Elicitation(asker, calls)
        server = _build_server(host, calls, patience_s, instructions, elicitation)
        try:
            await server.run(read_stream, write_stream, server.create_initialization_options())
        finally:
            if elicitation is not None:
                elicitation.close()


def patience_in_force(host: ToolHost, *wanted: float | None) -> float | None:
    """Return the shortest wanted patience, if any; none without a tool that takes tokens."""
    limits = [seconds for seconds in wanted if seconds is not None]
    can_ask_again = any(tool.name == WAIT_TOOL for tool in host.tools)
    return min(limits) if limits and can_ask_again else None


def _build_server(
    host: ToolHost,
    calls: asyncio.TaskGroup,
    patience_s: float | None,
    instructions: str | None,
    elicitation: Elicitation | None,
) -> Server[dict[str, Any]]:
    import mcp_types
    from mcp.server.lowlevel import Server

    async def list_tools(
        _context: ServerRequestContext, _params: mcp_types.PaginatedRequestParams | None
    ) -> mcp_types.ListToolsResult:
        tools = [
            mcp_types.Tool(
                name=t.name, description=t.description, input_schema=dict(t.input_schema)
            )
            for t in host.tools
        ]
        return mcp_types.ListToolsResult(tools=tools)

    async def call_tool(
        context: ServerRequestContext, params: mcp_types.CallToolRequestParams
    ) -> mcp_types.CallToolResult | mcp_types.InputRequiredResult:
        def run() -> Coroutine[Any, Any, ToolOutcome]:
            return _call(host, params.name, params.arguments or {}, patience_s)

        if elicitation is not None and can_elicit(context):
            outcome = await elicitation.call(context, params, run)
        else:
            outcome = await _call_apart(calls, params.name, run)
        if isinstance(outcome, mcp_types.InputRequiredResult):
            return outcome
        return await _result(outcome)

    return Server(
        SERVER_NAME,
        version=__version__,
        instructions=instructions,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


async def _result(outcome: ToolOutcome) -> mcp_types.CallToolResult:
    import mcp_types

    from prsm_core.kit import read_base64  # few answers have any

    shown = [
        mcp_types.ImageContent(type="image", data=data, mime_type=media_type)
        for media_type, data in await read_base64(outcome.images)
    ]
    content = mcp_types.TextContent(type="text", text=mended(outcome.text))
    return mcp_types.CallToolResult(content=[content, *shown], is_error=outcome.is_error)


async def _call_apart(
    calls: asyncio.TaskGroup, name: str, run: Callable[[], Coroutine[Any, Any, ToolOutcome]]
) -> ToolOutcome:
    """Run a call in a task of its own. It is cancelled once if this handler is."""
    task = calls.create_task(run(), name=f"tool call {name}")
    try:
        await asyncio.wait({task})
    except asyncio.CancelledError:
        task.cancel()
        raise
    return ended(task)


async def _call(
    host: ToolHost, name: str, arguments: Mapping[str, Any], patience_s: float | None
) -> ToolOutcome:
    """Return the outcome of a call. An error is one, too: it must reach the model."""
    try:
        return await host.call_tool(name, arguments, patience_s=patience_s)
    except PrsmError as error:
        return ToolOutcome.failed(error)
    except Exception as error:  # noqa: BLE001 - the boundary: told to the model, and logged
        _log.error("tool call %s failed", name, exc_info=error)
        text = f"{name} failed inside prsm: {type(error).__name__}: {error}"
        return ToolOutcome.failed(OrchestrationError(text, code="internal"))
