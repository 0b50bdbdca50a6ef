"""A real `prsm mcp`, and the client that leads it: MCP's own, or one that writes what it likes."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path

import mcp
from prsm_mcp.wire import LineReader, open_streams

CLIENT = (sys.executable, str(Path(__file__).with_name("client_relay.py")))


def serving(place, *args, **pipes):
    """Run `prsm mcp` with the scripted agents of a place."""
    script = ("--provider", "script", "--set", f"providers.script.scenario={place.scenario}")
    return place.running("mcp", *script, *args, **pipes)


class Leader:
    """A client of a running `prsm mcp`."""

    def __init__(self, process, client):
        self.process = process
        self.client = client

    async def outcome(self, tool, /, **arguments):
        """Call a tool; return whether it failed, and the data of its answer."""
        result = await self.client.call_tool(tool, arguments)
        [content] = result.content
        return bool(result.is_error), json.loads(content.text)

    async def call(self, tool, /, **arguments):
        """Call a tool that must succeed; return the data of its answer."""
        failed, data = await self.outcome(tool, **arguments)
        assert not failed, data
        return data

    async def spawn(self, name, prompt="work", **arguments):
        return await self.call("spawn_child", name=name, prompt=prompt, **arguments)


@contextlib.asynccontextmanager
async def leading(place, *args, mode="auto", through=(), start=serving, **options):
    """Start `prsm mcp` and lead it; on leaving, the client closes its side and waits.

    The client is the test's own process, or that of CLIENT; `options` are those of mcp.Client.
    """
    async with start(place, *args, through=through) as process:
        streams = open_streams(LineReader(process.stdout), process.stdin)
        async with mcp.Client(streams, mode=mode, **options) as client:
            yield Leader(process, client)
        process.stdin.close()
        await process.wait()
