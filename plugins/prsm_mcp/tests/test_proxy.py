"""The proxy as a process: a real client at one end, a real bridge at the other."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from prsm_mcp.bridge import PROXY, Bridge
from prsm_mcp.proxy import Pump, Silence
from prsm_mcp.wire import BEAT
from prsm_testing.doubles import answers, until

from plugins.prsm_mcp.tests.peers import DEADLINE, LINE_LIMIT, WaitingHost, proxy
from prsm_core.kit.clocks import SystemClock
from tests.engine.hostile import sockets_of, state_of

RSS_LIMIT_KB = 12 * 1024
BIG = 3_000_000


def client_of(endpoint, mode):
    """Return MCP's own client over the proxy of an endpoint."""
    command, *args = endpoint.argv
    server = StdioServerParameters(command=command, args=args, env=dict(endpoint.env))
    return Client(stdio_client(server), mode=mode)


@pytest.mark.requirement("E67")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_mcps_own_client_lists_and_calls_the_tools_by_either_generation(endpoint, host, mode):
    async with client_of(endpoint, mode) as client:
        await endpoint.until_connected()
        tools = (await client.list_tools()).tools
        assert next((t.name, t.description) for t in tools) == ("note", "The tool note.")
        assert tools[0].input_schema["properties"] == {"text": {"type": "string"}}
        result = await client.call_tool("note", {"text": "x"})
        assert (result.content[0].text, result.is_error) == ("noted", False)
        wrong = await client.call_tool("nothing", {})
        assert wrong.is_error
        assert "nothing" in wrong.content[0].text
    assert [call.name for call in host.calls] == ["note", "nothing"]


@pytest.mark.requirement("E67")
async def test_raw_frames_go_through_and_the_end_of_stdin_ends_the_proxy(endpoint):
    async with proxy(endpoint) as command_line:
        await command_line.shake_hands()
        assert await command_line.call("note", text="x") == ("noted", False)
        assert await command_line.end() == (0, "")


async def test_a_wrong_token_is_exit_code_3_and_one_line(endpoint, bridge):
    async with proxy(endpoint, PRSM_TOKEN="0" * 64) as refused:
        code, said = await refused.ended()
        assert await refused.process.stdout.read() == b""
    assert (code, said.count("\n")) == (3, 1)
    assert said.startswith("prsm: the engine refused this agent's token")
    assert bridge.refused == 1


async def test_no_engine_is_exit_code_4_and_one_line(endpoint, tmp_path):
    async with proxy(endpoint, PRSM_SOCKET=str(tmp_path / "nothing")) as lonely:
        code, said = await lonely.ended()
    assert (code, said.count("\n")) == (4, 1)
    assert "cannot be reached" in said


@pytest.mark.parametrize("name", ["PRSM_SOCKET", "PRSM_AGENT", "PRSM_TOKEN"])
async def test_what_is_not_set_is_exit_code_2_and_one_line(endpoint, name):
    async with proxy(endpoint, **{name: ""}) as lost:
        code, said = await lost.ended()
    assert (code, said.count("\n")) == (2, 1)
    assert name in said


async def test_an_engine_that_goes_ends_the_proxy_with_a_word(tmp_path, host):
    async with (
        Bridge(tmp_path / "s", SystemClock()) as bridge,
        bridge.endpoint(host, "a1") as endpoint,
    ):
        opened = proxy(endpoint)
        left = await opened.__aenter__()
        await left.shake_hands()
        left.begin_call("wait")
        await host.began.get()
    code, said = await left.ended()
    assert (code, said) == (4, "prsm: the engine has closed the connection\n")
    await opened.__aexit__(None, None, None)


async def test_a_command_line_is_told_nothing_before_it_is_killed_with_its_engine(tmp_path, host):
    """It would tell its model that the call has failed, and ask it what to do."""
    async with AsyncExitStack() as stack:
        async with (
            Bridge(tmp_path / "s", SystemClock()) as bridge,
            bridge.endpoint(host, "a1") as endpoint,
        ):
            left = await stack.enter_async_context(proxy(endpoint))
            await left.shake_hands()
            left.begin_call("wait")
            await host.began.get()
            pid, before = left.process.pid, sockets_of(left.process.pid)
        await until(lambda: sockets_of(pid) < before and state_of(pid) == "S")
        assert (await left.end())[0] == 4


@asynccontextmanager
async def engine_of(path, silence_s, *said):
    """Listen as an engine that lets everybody in, says this and nothing more."""
    greeted: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def accept(reader, writer):
        greeted.put_nowait(json.loads(await reader.readline()))
        writer.write(
            json.dumps({"ok": True, "silence_s": silence_s}, separators=(",", ":")).encode()
        )
        writer.write(b"\n" + b"".join(said))
        await reader.read()
        writer.close()

    server = await asyncio.start_unix_server(accept, path)
    try:
        yield greeted
    finally:
        server.close()


@pytest.mark.requirement("E77")
async def test_an_engine_that_hangs_is_given_up_with_a_word(endpoint, tmp_path):
    """Its process is there and its socket is open, so that nothing else would ever tell."""
    path = str(tmp_path / "hangs")
    async with engine_of(path, 0.05) as greeted, proxy(endpoint, PRSM_SOCKET=path) as waiting:
        waiting.begin_call("wait")
        assert (await greeted.get())["beats"] is True
        code, said = await waiting.ended()
    assert (code, said) == (4, "prsm: the engine has said nothing for 0.05 s: it hangs\n")


_STOPPED = """
import os, signal, socket, sys
listening = socket.socket(socket.AF_UNIX)
listening.bind(sys.argv[1])
listening.listen()
print("listens", flush=True)
connection, _ = listening.accept()
connection.recv(4096)
connection.sendall(b'{"ok":true,"silence_s":0.02}\\n')
os.kill(os.getpid(), signal.SIGSTOP)
connection.sendall(b'{"goes": "on"}\\n')
"""


def is_stopped(process):
    """Whether a process is stopped by a signal."""
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(") ")[2][0] == "T"


def waits_of(process):
    """Return how often a process has waited for something."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    [count] = re.findall(r"^voluntary_ctxt_switches:\s+(\d+)", status, re.MULTILINE)
    return int(count)


@pytest.mark.requirement("E77")
async def test_an_engine_that_is_stopped_is_waited_for_until_it_goes_on(endpoint, tmp_path):
    path = str(tmp_path / "stopped")
    engine = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _STOPPED, path), stdout=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(DEADLINE):
            assert engine.stdout is not None
            assert await engine.stdout.readline() == b"listens\n"
            async with proxy(endpoint, PRSM_SOCKET=path) as waiting:
                await until(lambda: is_stopped(engine))
                soon = waits_of(waiting.process) + 20  # it was silent for too long as often
                await until(lambda: waits_of(waiting.process) >= soon)
                engine.send_signal(signal.SIGCONT)
                assert await waiting.receive() == {"goes": "on"}
                assert (await waiting.ended())[1] == "prsm: the engine has closed the connection\n"
    finally:
        if engine.returncode is None:
            engine.kill()
        await engine.wait()


async def test_the_beats_of_an_engine_go_no_further(endpoint, tmp_path):
    path, said = str(tmp_path / "beats"), (BEAT, b'{"id":1}\n', BEAT + BEAT, b'{"id":2}\n', BEAT)
    async with engine_of(path, 300, *said), proxy(endpoint, PRSM_SOCKET=path) as hearing:
        assert [await hearing.reader.readline() for _ in "12"] == [b'{"id":1}\n', b'{"id":2}\n']
        await hearing.end()
        assert await hearing.reader.read() == b""


def test_what_comes_and_what_is_not_passed_on_yet_is_no_silence():
    reading, writing = os.pipe()
    try:
        pump, silence = Pump(reading, writing, 1, has_beats=True), Silence(100.0)

        def listened():
            """Return the seconds that are left, before it is told what the pump did and after."""
            before = silence.left()
            silence.heard(pump)
            return before, silence.left()

        os.write(writing, BEAT)
        pump.move()
        before, after = listened()
        assert (pump.held, before < after) == (b"", True), "a beat came"
        before, after = listened()
        assert before >= after, "nothing did"
        pump.held = b"x"
        before, after = listened()
        assert before < after, "nobody was listened to: the command line does not read"
    finally:
        os.close(reading)
        os.close(writing)


def test_who_does_not_know_how_long_an_engine_is_silent_waits():
    assert Silence(None).left() is None


async def test_a_proxy_that_is_killed_takes_its_calls_with_it(endpoint, host):
    async with proxy(endpoint) as killed:
        await killed.shake_hands()
        killed.begin_call("wait", text="in vain")
        assert await host.began.get() == "in vain"
        killed.process.kill()
        async with asyncio.timeout(DEADLINE):
            assert await host.cancelled.get() == "in vain"


async def test_one_agent_may_have_several_proxies(endpoint, host):
    async with proxy(endpoint) as first, proxy(endpoint) as second:
        await first.shake_hands()
        await second.shake_hands()
        first.begin_call("wait", text="first")
        assert await host.began.get() == "first"
        assert await second.call("note") == ("noted", False)
        assert (await second.end())[0] == 0
        host.release.set()
        answer = await first.receive()
        assert answer["result"]["content"][0]["text"] == "waited for first"


async def test_three_megabytes_go_through_both_ways(bridge):
    async def echo(text):
        return await answers(text)()

    async with (
        bridge.endpoint(WaitingHost(echo=echo), "a1") as endpoint,
        proxy(endpoint) as command_line,
    ):
        await command_line.shake_hands()
        assert await command_line.call("echo", text="x" * BIG) == ("x" * BIG, False)


async def test_a_stdout_that_is_full_and_does_not_block_loses_nothing(bridge):
    reading, writing = os.pipe()
    os.set_blocking(writing, False)  # as some command lines leave it
    host = WaitingHost(big=answers("x" * BIG))
    async with (
        bridge.endpoint(host, "a1") as endpoint,
        proxy(endpoint, stdout=writing) as command_line,
    ):
        os.close(writing)
        stdout = asyncio.StreamReader(limit=LINE_LIMIT)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(stdout), os.fdopen(reading, "rb", 0)
        )
        command_line.reader = stdout
        await command_line.shake_hands()
        numbers = [command_line.begin_call("big") for _ in range(4)]
        await command_line.process.stdin.drain()
        assert sorted([(await command_line.receive())["id"] for _ in numbers]) == numbers
        assert (await command_line.end())[0] == 0
        transport.close()


def test_a_pump_whose_pipe_is_not_ready_after_all_keeps_what_it_holds():
    """Another process may have the same pipe open, and be quicker."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    try:
        pump = Pump(reading, writing, 1 << 20)
        pump.move()
        assert (pump.is_open, pump.held) == (True, b"")
        pump.held = b"x" * (1 << 20)
        pump.move()
        pump.move()
        assert 0 < len(pump.held) < 1 << 20
        assert pump.is_heard
    finally:
        os.close(reading)
        os.close(writing)


async def test_a_command_line_that_reads_no_more_ends_the_proxy(bridge):
    reading, writing = os.pipe()
    host = WaitingHost(big=answers("x" * BIG))
    async with (
        bridge.endpoint(host, "a1") as endpoint,
        proxy(endpoint, stdout=writing) as command_line,
    ):
        os.close(writing)
        command_line.begin("initialize", {})
        await endpoint.until_connected()
        os.close(reading)
        assert await command_line.ended() == (0, "")


async def test_an_address_may_be_longer_than_a_socket_allows(tmp_path, host):
    path = tmp_path / ("long" * 20) / ("longer" * 20) / "s"
    assert len(str(path)) > 150
    async with (
        Bridge(path, SystemClock()) as bridge,
        bridge.endpoint(host, "a1") as endpoint,
        proxy(endpoint) as command_line,
    ):
        await command_line.shake_hands()
        assert (await command_line.end())[0] == 0


@pytest.mark.requirement("E66")
async def test_where_there_are_no_unix_sockets_the_loopback_interface_serves(tmp_path, host):
    async with (
        Bridge(tmp_path / "s", SystemClock(), unix=False) as bridge,
        bridge.endpoint(host, "a1") as endpoint,
    ):
        assert re.fullmatch(r"tcp:127\.0\.0\.1:\d+", endpoint.env["PRSM_SOCKET"])
        async with proxy(endpoint) as command_line:
            await command_line.shake_hands()
            assert await command_line.call("note") == ("noted", False)
            assert (await command_line.end())[0] == 0
        async with proxy(endpoint, PRSM_TOKEN="0" * 64) as refused:
            assert (await refused.ended())[0] == 3
    assert not (tmp_path / "s").exists()


def told_of(command_line, what):
    """Return what the system tells of a proxy's process."""
    return Path(f"/proc/{command_line.process.pid}/{what}").read_text()


async def test_the_token_is_not_among_the_arguments(endpoint):
    async with proxy(endpoint) as command_line:
        await command_line.shake_hands()
        argv = told_of(command_line, "cmdline")
    assert PROXY.name in argv
    assert endpoint.env["PRSM_TOKEN"] not in argv


async def test_a_proxy_takes_12_megabytes_at_most(endpoint):
    async with proxy(endpoint) as command_line:
        await command_line.shake_hands()
        await command_line.call("note", text="x" * BIG)
        status = told_of(command_line, "status")
    [peak] = re.findall(r"VmHWM:\s+(\d+) kB", status)
    assert int(peak) <= RSS_LIMIT_KB


async def test_the_proxy_imports_nothing_but_the_standard_library(endpoint):
    command, *options, _ = endpoint.argv
    code = f"import sys, runpy; runpy.run_path({str(PROXY)!r}); print(*sys.modules)"
    async with proxy(endpoint, argv=(command, *options, "-c", code)) as imported:
        loaded = (await imported.reader.read()).decode().split()
    ours = {
        name for name in loaded if name.split(".")[0] in {"prsm_core", "mcp", "json", "asyncio"}
    }
    assert socket.__name__ in loaded
    assert not ours
