"""An MCP server that does not begin is named and left out; one that is required ends the agent."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from contextlib import asynccontextmanager

import pytest

from prsm_core.domain.tools import McpServer
from prsm_core.engine.processes.launcher import ProcessLauncher
from prsm_core.engine.providers.mcp_trials import McpTrials, judge_tools
from prsm_core.errors import ConfigError
from prsm_core.kit.clocks import SystemClock

pytestmark = pytest.mark.requirement("U35")

SERVER = """
import json, sys
tools, mark = json.loads(sys.argv[1]), sys.argv[2]
open(mark, "a").write("begun\\n")
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        able = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {}}
        result = able if asked["method"] == "initialize" else {"tools": tools}
        sys.stdout.write("no JSON\\n")
        answer = {"jsonrpc": "2.0", "id": asked["id"], "result": result}
        sys.stdout.write(json.dumps(answer) + "\\n")
        sys.stdout.flush()
"""
REFUSES = """
import json, sys
asked = json.loads(sys.stdin.readline())
error = {"code": 1, "message": "no licence"}
print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": error}), flush=True)
sys.stdin.read()
"""
TOOL = {"name": "look", "inputSchema": {"type": "object"}}


def script(text, *args, **fields):
    return McpServer(command=sys.executable, args=("-I", "-S", "-c", text, *args), **fields)


class Scene:
    """Trials, and what they told."""

    def __init__(self, launcher, folder):
        self.told: list[tuple[str, str]] = []
        self.folder = folder
        self.mark = folder / "mark"

        async def start(argv, *, name, cwd, env, box):
            assert box is None
            return await launcher.start(argv, name=name, cwd=cwd, env=env)

        self._trials = McpTrials(
            start, SystemClock(), lambda agent, text: self.told.append((agent, text))
        )

    def good(self, *tools, **fields):
        return script(SERVER, json.dumps(tools or [TOOL]), str(self.mark), **fields)

    async def usable(self, agent="a", refused="", **servers):
        return await self._trials.usable(
            servers,
            agent_id=agent,
            cwd=str(self.folder),
            box=None,
            refusal=lambda name: "no such name" if name == refused else "",
        )


@pytest.fixture
async def scene(tmp_path):
    async with ProcessLauncher(SystemClock()) as launcher:
        yield Scene(launcher, tmp_path)
        assert launcher.live == ()


async def test_a_server_that_begins_is_handed_on_and_tried_once(scene):
    server = scene.good()
    assert await scene.usable(fine=server) == {"fine": server}
    assert await scene.usable(agent="b", fine=server) == {"fine": server}
    assert scene.told == []
    assert scene.mark.read_text() == "begun\n"


BROKEN = {
    "missing": (McpServer(command="/no/such/program"), "No such file"),
    "dead": (script("import sys; sys.exit('no database')"), "exit code 1: no database"),
    "hanging": (script("import sys; sys.stdin.read()", start_seconds=0.5), "within 0.5 s"),
    "refusing": (script(REFUSES), "no licence"),
    "far": (McpServer(url="http://127.0.0.1:1/mcp"), "refused"),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_a_server_that_does_not_begin_is_named_once_and_left_out(scene, name):
    server, why = BROKEN[name]
    fine = scene.good()
    assert await scene.usable(fine=fine, bad=server) == {"fine": fine}
    assert await scene.usable(agent="b", fine=fine, bad=server) == {"fine": fine}
    ((agent, text),) = scene.told
    assert agent == "a"
    assert re.search(f"the MCP server bad is left out: .*{why}", text)


@pytest.mark.parametrize("name", BROKEN)
async def test_a_server_that_is_required_ends_its_agent_and_is_named(scene, name):
    server, why = BROKEN[name]
    fields = {field: getattr(server, field) for field in server.__struct_fields__}
    required = McpServer(**{**fields, "required": True})
    with pytest.raises(ConfigError, match=f"the MCP server bad is required .*{why}"):
        await scene.usable(fine=scene.good(), bad=required)


async def test_a_name_that_the_vendor_cannot_take_is_told_and_nothing_is_started(scene):
    assert await scene.usable(refused="my.server", **{"my.server": scene.good()}) == {}
    assert scene.told == [("a", "the MCP server my.server is left out: no such name")]
    assert not scene.mark.exists()


@pytest.mark.parametrize(
    ("tools", "why"),
    [
        ([TOOL, {"name": "odd"}], "the tool 'odd' has no inputSchema"),
        ([{"inputSchema": {"type": "object"}}], "no name"),
        ([{**TOOL, "description": 7}], "description of the tool 'look'"),
        (["look"], "no name"),
    ],
)
async def test_a_tool_for_which_vendors_drop_the_server_is_told(scene, tools, why):
    assert await scene.usable(odd=scene.good(*tools)) == {}
    assert why in scene.told[0][1]


def test_what_only_some_vendors_refuse_is_told_and_handed_on():
    trial = judge_tools([TOOL, TOOL, {"name": "any", "inputSchema": {}}])
    assert trial.problem == ""
    assert len(trial.notes) == 2
    assert judge_tools(None).problem


@asynccontextmanager
async def answering(status):
    """Serve by HTTP with one status, or take connections and be silent."""
    heads: list[bytes] = []

    async def serve(reader, writer):
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        if status is None:
            await reader.read()
        else:
            writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\n{{}}".encode())
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp", heads
    finally:
        server.close()


@pytest.mark.parametrize(
    ("status", "why"),
    [("200 OK", ""), ("401 Unauthorized", "it answers 401"), (None, "within 1 s")],
)
async def test_a_server_by_url_is_asked_with_its_headers(scene, status, why):
    async with answering(status) as (url, heads):
        limit = 1.0 if status is None else 60.0
        server = McpServer(url=url, headers={"X-Team": "core"}, start_seconds=limit)
        found = await scene.usable(web=server)
    assert b"X-Team: core" in heads[0]
    assert (not found, why in str(scene.told)) == (bool(why), True)
