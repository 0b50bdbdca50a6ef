"""Serves the MCP client that has started `prsm mcp` and leads the run."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from prsm_core import ConfigError
from prsm_core.commands import lead
from prsm_core.kit import whole_number, with_notice
from prsm_mcp.eliciting import ClientAsker
from prsm_mcp.stdio import serve_stdio

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prsm_core import AgentHost, AppHandle, ToolOutcome, ToolSpec
    from prsm_core.commands import Launch
    from prsm_core.kit import Wire

PATIENCE_SECONDS = 300.0
_LIMIT = "MCP_TOOL_TIMEOUT"  # ms: how Claude Code is told to cut calls off
_MARGIN = 0.9  # of that limit: the answer has to arrive within it
BEGINS = "a client starts this command: claude mcp add --scope user prsm -- prsm mcp"

INSTRUCTIONS = """\
PRSM runs coding agents as your children. Give each a complete task with spawn_child, or several \
at once with spawn_children_parallel: a child sees nothing of this conversation. Then call \
wait_for_message with all, for all results together. A question ends it early: answer at once with \
respond_to_child, and wait again. An answer of type `pending` is no failure: the work goes on, \
and wait_for_message with its token gives the answer. A `notice` is for your user: pass it on. \
When your session ends, the children that still run are killed."""


def serve_client(
    launch: Launch, options: Mapping[str, Any], patience_s: float | None, environ: Mapping[str, str]
) -> int:
    """Serve the client until it leaves and return the exit code.

    `launch` and `options` are as `prsm_core.commands.lead` takes them. A call that takes longer
    than `patience_s` seconds is answered `pending`; None: as the environment tells.

    Raises:
        ConfigError: no client is there, or the environment tells a limit that is none.
    """
    speak = partial(_speak, patience_s or patience_of(environ))
    return lead(launch, options, speak, client="MCP client", hint=BEGINS)


def patience_of(environ: Mapping[str, str]) -> float:
    """Return how many seconds a call may take, as far as the environment tells."""
    limit = environ.get(_LIMIT)
    if limit is None:
        return PATIENCE_SECONDS
    milliseconds = whole_number(limit)
    if not milliseconds:
        raise ConfigError(
            f"{_LIMIT} is {limit!r}", hint="it is a number of milliseconds, such as 600000"
        )
    return min(PATIENCE_SECONDS, milliseconds / 1000 * _MARGIN)


async def _speak(
    patience_s: float, host: AgentHost, app: AppHandle, wire: Wire, brief: str
) -> None:
    asker = ClientAsker(app)
    async with asyncio.TaskGroup() as group:
        following = group.create_task(asker.follow(), name="what waits for the client's user")
        await serve_stdio(
            ClientHost(host, app),
            wire,
            patience_s=patience_s,
            instructions="\n\n".join(filter(None, (INSTRUCTIONS, brief))),
            asker=asker,
        )
        following.cancel()


class ClientHost:
    """The master's tools as the client sees them: it is told what waits for a person."""

    def __init__(self, host: AgentHost, app: AppHandle) -> None:
        self._host = host
        self._app = app

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """The tools of the master."""
        return self._host.tools

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        call_id: str | None = None,
        patience_s: float | None = None,
    ) -> ToolOutcome:
        """Call a tool; see AgentHost."""
        outcome = await self._host.call_tool(
            name, arguments, call_id=call_id, patience_s=patience_s
        )
        # The outcome is given: nothing may wait from here on, for who is cut off loses it.
        waiting = await self._app.requests()
        return with_notice(outcome, _notice(waiting)) if waiting else outcome


def _notice(requests: Sequence[Mapping[str, Any]]) -> str:
    """Return what the client should tell its user."""
    asks = "; ".join(_subject(request) for request in requests)
    return (
        f"Waiting for your user: {asks}. Tell them that `prsm attach` in a second terminal lets "
        "them answer; without an answer it will be refused."
    )


def _subject(request: Mapping[str, Any]) -> str:
    if request["kind"] == "question":
        return f"{request['name']} asks: {request['question']}"
    what = request["command"] or ", ".join(request["paths"]) or request["reason"]
    return f"{request['name']} asks permission for {request['tool']}: {what}"
