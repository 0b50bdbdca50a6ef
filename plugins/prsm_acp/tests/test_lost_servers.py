"""A watched MCP server that ends by itself is named; one that its agent ends is not."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager

import pytest
from prsm_acp.launch import WatchedServers

from prsm_core.domain.tools import McpServer

pytestmark = pytest.mark.requirement("U35")

DEADLINE = 30.0
READY = "print('ready', flush=True);"
LISTENS = f"import sys; {READY} sys.stdin.read(); sys.exit(5)"


@pytest.fixture
async def watched(tmp_path):
    """Return a server with this text, as an agent starts it, and what tells of its loss."""

    async def made(text, *, command=sys.executable):
        server = McpServer(command=command, args=("-c", text), env={"A": "1"})
        servers = WatchedServers({"docs": server}, tmp_path)
        await servers.prepare()
        given = servers.servers["docs"]
        assert given.env == {"A": "1"}
        return [given.command, *given.args], servers.lost

    return made


@contextmanager
def started(argv, stdin=subprocess.PIPE):
    with subprocess.Popen(argv, stdin=stdin, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process


@pytest.mark.parametrize(
    ("end", "code", "why"),
    [
        ("import sys; sys.exit(3)", 3, "exit code 3"),
        ("pass", 0, "exit code 0"),
        ("import os; os.kill(os.getpid(), 11)", 139, "killed by signal 11, SIGSEGV"),
    ],
)
async def test_a_server_that_ends_by_itself_is_named_once(watched, end, code, why):
    argv, lost = await watched(f"{READY} {end}")
    with started(argv) as process:
        assert process.wait(DEADLINE) == code
    (notice,) = await lost()
    assert notice.text == f"The MCP server docs is not there: it ended by itself, {why}"
    assert await lost() == []


async def test_a_server_that_cannot_be_started_is_named(watched):
    argv, lost = await watched("", command="/no/such/program")
    process = await asyncio.create_subprocess_exec(*argv, stdin=subprocess.PIPE)
    assert await process.wait() == 127
    (notice,) = await lost()
    assert "docs is not there" in notice.text


async def test_a_server_whose_agent_wants_it_no_more_is_not_told_of(watched):
    argv, lost = await watched(LISTENS)
    with started(argv) as process:
        process.stdin.close()
        assert process.wait(DEADLINE) == 5
    assert await lost() == []


async def test_an_agent_may_talk_over_sockets(watched):
    ours, theirs = socket.socketpair()
    argv, lost = await watched(LISTENS)
    with ours, theirs, started(argv, theirs.fileno()) as process:
        theirs.close()
        ours.shutdown(socket.SHUT_WR)
        assert process.wait(DEADLINE) == 5
    assert await lost() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_a_signal_reaches_the_server_and_is_no_loss(watched, number):
    heard = f"import signal, sys; signal.signal({int(number)}, lambda *_: sys.exit(7));"
    argv, lost = await watched(f"{heard} {READY} signal.pause()")
    with started(argv) as process:
        process.send_signal(number)
        assert process.wait(DEADLINE) == 7
    assert await lost() == []


async def test_what_is_said_passes_untouched(watched):
    argv, _ = await watched(f"import sys; {READY} print(sys.stdin.readline().upper(), end='')")
    with started(argv) as process:
        assert process.communicate("a word\n", DEADLINE) == ("A WORD\n", None)


def test_a_server_that_is_reached_by_a_url_stays_as_it_is(tmp_path):
    server = McpServer(url="http://x/mcp")
    watched = WatchedServers({"web": server}, tmp_path)
    assert watched.servers == {"web": server}
    assert not watched.shown
