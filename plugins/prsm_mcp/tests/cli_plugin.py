"""A plugin whose agents are command lines that know orchestration tools by MCP alone.

An agent's prompt is what its model does: a JSON list of calls, `[[TOOL, ARGUMENTS], …]`.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from prsm_core import Provider, ProviderSession, ProviderSpec, hookimpl
from prsm_core.domain.turns import AssistantMessage, StepEnded, StopReason, TurnEnded
from prsm_core.kit.programs import proxy_missing

DEADLINE = 10.0

answers: list[tuple[str, dict, bool]] = []  # agent's name, data, whether it is an error
processes: list = []


@dataclass
class CliProvider(Provider):
    services: Any
    is_mute: bool = False  # its command line never starts the server it was given

    @asynccontextmanager
    async def open_session(self, request, host):
        async with host.mcp_endpoint() as endpoint:
            argv = ("sleep", "60") if self.is_mute else endpoint.argv
            process = await self.services.start_process(argv, name="cli", env=endpoint.env)
            processes.append(process)
            try:
                await self._until_connected(endpoint)
                yield CliSession(request.name, process)
            finally:
                await process.stop(grace=1.0)

    async def _until_connected(self, endpoint) -> None:
        seconds = 0.05 if self.is_mute else DEADLINE
        try:
            async with asyncio.timeout(seconds):
                await endpoint.until_connected()
        except TimeoutError:
            raise proxy_missing("the CLI", seconds) from None


@dataclass
class CliSession(ProviderSession):
    name: str
    process: Any
    is_open: bool = False
    lines: Any = field(init=False)

    def __post_init__(self) -> None:
        self.lines = self.process.lines()

    async def run_turn(self, context):
        if not self.is_open:
            self.is_open = True
            about = {"name": "cli", "version": "0"}
            await self._ask(
                "initialize",
                {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about},
            )
        for tool, arguments in json.loads(context.current_message.content):
            yield StepEnded()
            result = await self._ask("tools/call", {"name": tool, "arguments": arguments})
            [part] = result["content"]
            answers.append((self.name, json.loads(part["text"]), result["isError"]))
        yield AssistantMessage("all called")
        yield TurnEnded(StopReason.END_TURN)

    async def _ask(self, method, params):
        frame = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        await self.process.write(json.dumps(frame).encode() + b"\n")
        return json.loads(await anext(self.lines))["result"]


def build(settings, services):
    return CliProvider(services=services, is_mute=bool(settings.get("mute")))


@hookimpl
def prsm_providers():
    yield ProviderSpec(name="cli", summary="command lines", factory=build)
