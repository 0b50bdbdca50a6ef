"""Programs in a real box with limits: the workflow, each way of asking, and what a limit does."""

from __future__ import annotations

import shutil
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from prsm_protocols.program.provider import build
from prsm_testing import only, open_services, run_turn, session_request, until

from plugins.prsm_protocols.tests.acting import SERVERS, ProtocolHost, mostly_long, open_server
from plugins.prsm_protocols.tests.test_clients import CLIENTS, write_pages
from prsm_core import StopReason, TurnEnded
from tests.engine.boxes import needs_runc
from tests.person import room

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

pytestmark = needs_runc
LANGUAGES = {
    "python": ("/usr/bin/python3", "agent.py"),
    "node": ("/usr/bin/node", "agent.mjs"),
    "bash": ("/usr/bin/bash", "agent.sh"),
}
LIMITS = {"memory": "512M", "cpus": 1.0, "pids": 64}


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a folder outside of the temp directory, which a box has of its own."""
    made = room()
    made.mkdir(parents=True)
    yield made
    shutil.rmtree(made)


@asynccontextmanager
async def boxed(
    folder: Path, argv: list[str], host: ProtocolHost, **settings: Any
) -> AsyncIterator[Any]:
    workspace = folder / "workspace"
    write_pages(workspace)
    section = {"command": argv, "mounts": {"/clients": str(CLIENTS)}, "restarts": 0, **LIMITS}
    async with open_services(folder / "state") as services:
        provider = build({**section, **settings}, services)
        request = session_request(workspace, name="Alice", model="default")
        async with provider.open_session(request, host) as session:
            yield session
        await provider.aclose()
        await until(lambda: not services.live)


@pytest.mark.parametrize(
    ("way", "language"),
    mostly_long(
        ("socket", *SERVERS),
        tuple(LANGUAGES),
        *(("socket", "python"), ("socket", "bash"), ("redis", "bash"), ("valkey", "node")),
    ),
)
@pytest.mark.requirement("A11", "A16")
async def test_the_workflow_word_for_word_in_a_container_with_limits(folder, language, way):
    program, script = LANGUAGES[language]
    if shutil.which(program) is None:
        pytest.skip(f"{program} is missing")
    host, settings = ProtocolHost(), dict[str, Any]()
    async with AsyncExitStack() as stack:
        if way in SERVERS:
            server = await stack.enter_async_context(open_server(way, folder / "server"))
            by_name = language == "bash"  # it has no Unix sockets
            settings = {"redis": server.url, "network": True} if by_name else {}
            settings = settings or {"redis": server.unix_url}
        argv = [program, f"/clients/{script}"]
        session = await stack.enter_async_context(boxed(folder, argv, host, **settings))
        (ended,) = only(TurnEnded, await run_turn(session, "Read everything."))
    assert ended == TurnEnded(StopReason.END_TURN)
    assert host.moves == [("bootstrap", "inbox")]
    assert host.done[0].endswith("has read everything")


async def test_in_its_box_it_writes_its_folder_and_its_home_and_nothing_else(folder):
    code = """
    for place in "$HOME" . ; do touch "$place/mine" || exit 1; done
    for place in /protocols /run/prsm /usr /clients; do
        touch "$place/mine" 2>/dev/null && exit 2
    done
    [[ $(ls /proc | grep -c '^[0-9]') -lt 10 ]] || exit 3
    [[ $PRSM_PROTOCOLS/$PRSM_SOCKET == /protocols//run/prsm/bridge.sock ]] || exit 4
    aism complete seen
    """
    host = ProtocolHost("idle")
    async with boxed(folder, ["bash", "-c", code], host) as session:
        (ended,) = only(TurnEnded, await run_turn(session, "Look."))
    assert ended == TurnEnded(StopReason.END_TURN)
    assert host.done == ["seen"]
    assert (folder / "workspace" / "mine").exists()


@pytest.mark.requirement("A16")
async def test_one_that_takes_more_memory_than_it_may_is_killed_and_told_of(folder):
    code = "import sys; sys.stdin.readline(); a = bytearray(400 * 2**20); print(len(a))"
    host = ProtocolHost("idle")
    async with boxed(folder, ["/usr/bin/python3", "-c", code], host, memory="64M") as session:
        (ended,) = only(TurnEnded, await run_turn(session, "Grow."))
    assert ended.error is not None
    assert "in state 'idle', 1 times: killed by signal 9" in ended.error.message
    assert "memory" in ended.error.message
