"""A person's network settings and variables reach each vendor's program, its shell and servers.

The model is reached by a name that only a proxy on loopback knows.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from prsm_testing.model_server import ModelServer

from prsm_core.domain.agents import PermissionMode
from tests.live.test_same_verdict import CALL_DONE, SECTIONS, play, program, workspace

pytestmark = [pytest.mark.live, pytest.mark.requirement("U30")]

__all__ = ["workspace"]  # a fixture

VENDORS = [*SECTIONS, "claude"]
PASSWORD = "hunter2%21passing"  # noqa: S105 - of a proxy on loopback
LOOPBACK = {"localhost", "127.0.0.1", "::1"}
PROXIES = [name for each in ("HTTP", "HTTPS", "ALL") for name in (f"{each}_PROXY",)]
PROXIES += [name.lower() for name in PROXIES]
SET = {
    "NODE_EXTRA_CA_CERTS": "/etc/ssl/certs/ca-certificates.crt",
    "NODE_USE_SYSTEM_CA": "1",
    "SSL_CERT_FILE": "/etc/ssl/certs/ca-certificates.crt",
    "SSL_CERT_DIR": "/etc/ssl/certs",
    "REQUESTS_CA_BUNDLE": "/etc/ssl/certs/ca-certificates.crt",
    "CODEX_CA_CERTIFICATE": "/etc/ssl/certs/ca-certificates.crt",
    "JAVA_HOME": "/opt/java",
    "CONDA_PREFIX": "/opt/conda",
    "DATABASE_URL": "postgres://app:wordpass99@db/app",
}
STAYS_OUT = {"CONDA_API_TOKEN": "conda-secret-token", "UNNAMED": "1"}
PASS_ENV = ["JAVA_HOME", "CONDA_*", "DATABASE_URL"]
# Writes down its environment, and whose command line holds a password.
TELL = """
import json, os, sys
from pathlib import Path
def command(entry):
    try:
        return (entry / "cmdline").read_bytes()
    except OSError:
        return b""
lines = [command(entry) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
leaks = [line.decode(errors="replace") for line in lines if b"hunter2" in line]
Path(sys.argv[1]).write_text(json.dumps({"env": dict(os.environ), "leaks": leaks}))
print("the proxy is", os.environ.get("HTTPS_PROXY"))
"""
SERVER = Path(__file__).parents[2] / "plugins/prsm_codex/tests/small_mcp.py"


class Proxy:
    """A proxy on loopback that leads whatever is asked for to one port."""

    def __init__(self, port: int) -> None:
        self._to = port
        self.port = 0
        self.asked: list[tuple[str, str]] = []  # the first line, and who asks

    @contextlib.asynccontextmanager
    async def serving(self):
        """Serve until this is left."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()

    async def _serve(self, reader, writer):
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            first, *lines = head.decode().split("\r\n")
            method, target, version = first.split(" ")
            named = [line.partition(": ")[2] for line in lines if _is(line, "proxy-authorization")]
            self.asked.append((first, named[0] if named else ""))
            there, onwards = await asyncio.open_connection("127.0.0.1", self._to)
            if method == "CONNECT":
                writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            else:
                url = urlsplit(target)
                path = f"{url.path}?{url.query}" if url.query else url.path
                left = [line for line in lines if not _is(line, *_OF_THE_WAY)]
                told = [f"{method} {path} {version}", "Connection: close", *left]
                onwards.write("\r\n".join(told).encode())
            await asyncio.gather(_pump(reader, onwards), _pump(there, writer))
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


_OF_THE_WAY = ("connection", "proxy-connection", "proxy-authorization")


def _is(line: str, *names: str) -> bool:
    return line.partition(":")[0].lower() in names


async def _pump(reader, writer):
    with contextlib.suppress(OSError):
        while chunk := await reader.read(2**16):
            writer.write(chunk)
            await writer.drain()
    writer.close()


def section_of(name: str) -> dict[str, Any]:
    """Return the section of a vendor's real program."""
    if name == "claude":
        pytest.importorskip("claude_agent_sdk", reason="claude-agent-sdk is not installed")
        return {"kind": "claude"}
    variable, arguments, section = SECTIONS[name]
    return {**section, "command": [program(variable), *arguments]}


def steps_of(section: dict[str, Any], command: str) -> list[Any]:
    """Return the steps of a worker that runs one command."""
    by_mcp = {"namespace": "mcp__prsm"} if section.get("backend") == "exec" else {}
    return [{"shell": command}, {"call": {**CALL_DONE, **by_mcp}}, {"hang": True}]


async def surrounded(workspace, section, server, url):
    """Have a worker write down the environment of its shell; an MCP server of it does so too."""
    told = workspace / "server.json"
    mcp = f"import runpy, sys; exec(open('tell.py').read()); runpy.run_path({str(SERVER)!r})"
    (workspace / "tell.py").write_text(TELL)
    quiet = mcp.replace("exec(", "sys.stdout, out = sys.stderr, sys.stdout; exec(").replace(
        "); runpy", "); sys.stdout = out; runpy"
    )
    base = f"{url}/v1" if section["kind"] == "codex" else url
    events = await play(
        workspace,
        {**section, "base_url": base, "api_key_env": "LIVE_TEST_KEY"},
        {"allow": ["python3 tell.py shell.json"]},
        further={
            "pass_env": PASS_ENV,
            "mcp_servers": {"words": {"command": sys.executable, "args": ["-c", quiet, str(told)]}},
        },
        mode=PermissionMode.BYPASS,
    )
    assert server.failures == []
    found = {name: json.loads((workspace / f"{name}.json").read_text()) for name in PLACES}
    return events, found


PLACES = ("shell", "server")


@pytest.fixture
def outside(monkeypatch):
    """Set a person's variables, and none of the network."""
    for name in (*PROXIES, "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {**SET, **STAYS_OUT}.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


@pytest.mark.requirement("U19")
@pytest.mark.parametrize("name", VENDORS)
async def test_a_vendor_works_behind_a_proxy_and_hands_the_surroundings_on(
    workspace, outside, name
):
    section = section_of(name)
    steps = steps_of(section, "python3 tell.py shell.json")
    async with (
        ModelServer({"lanes": {"worker": {"marker": "", "steps": steps}}}) as server,
        Proxy(urlsplit(server.root_url).port or 0).serving() as proxy,
    ):
        address = f"http://someone:{PASSWORD}@127.0.0.1:{proxy.port}"
        for variable in PROXIES:
            outside.setenv(variable, address)
        outside.setenv("NO_PROXY", "intranet.test")
        events, found = await surrounded(workspace, section, server, "http://model.test:8080")
        said = json.dumps([request.body for request in server.requests])
    basic = base64.b64encode(b"someone:hunter2!passing").decode()
    assert {who for line, who in proxy.asked if "model.test" in line} == {f"Basic {basic}"}
    for place in PLACES:
        env = found[place]["env"]
        wanted = {**SET, **dict.fromkeys(PROXIES, address)}
        assert {key: env.get(key) for key in wanted} == wanted, place
        assert not STAYS_OUT.keys() & env.keys(), place
        assert "LIVE_TEST_KEY" not in env, place
        for variable in ("NO_PROXY", "no_proxy"):
            assert LOOPBACK | {"intranet.test"} <= set(env[variable].split(",")), place
        assert found[place]["leaks"] == []
    assert not [key for key in found["shell"]["env"] if key.startswith("GEMINI_CLI_PRSM")]
    assert PASSWORD in said  # the model reads what its command printed
    told = str([(event.type, event.data) for event in events])
    assert "hunter2" not in told
    assert "the proxy is" in told or name in UNTOLD


UNTOLD = ("gemini-acp", "acp")  # which tell no output of a command


@pytest.mark.parametrize("name", VENDORS)
async def test_loopback_is_reached_without_the_proxy(workspace, outside, name):
    section = section_of(name)
    for variable in PROXIES:
        outside.setenv(variable, "http://127.0.0.1:1")
    steps = steps_of(section, "python3 tell.py shell.json")
    async with ModelServer({"lanes": {"worker": {"marker": "", "steps": steps}}}) as server:
        await surrounded(workspace, section, server, server.root_url)
