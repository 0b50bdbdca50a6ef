"""A server that cannot be heard of: each vendor's user is told within seconds, and how it goes on.

One server takes no connection, as where a firewall drops what is sent: the queue of its socket is
full, so that the kernel drops each further attempt. The other takes every connection and is silent.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import socket

import pytest

from tests.live.test_budgets import STEPWISE, TURNWISE, section

pytestmark = [pytest.mark.live, pytest.mark.requirement("E27")]

BACKENDS = {**STEPWISE, **TURNWISE}
TOLD_SECONDS = 15.0
WITHIN_SECONDS = 60.0  # also for a program that starts slowly; a test that needs them has failed
HOW_LONG = re.compile(r"has not answered yet, after \d+ s; it is waited for \d+ s more at most")


class Hole:
    """A server on loopback that is never heard of; `root_url` and `base_url` are its addresses."""

    def __init__(self, port: int) -> None:
        self.root_url = f"http://127.0.0.1:{port}"
        self.base_url = f"{self.root_url}/v1"


@contextlib.contextmanager
def hole(*, takes: bool):
    """Open a server that takes connections and is silent, or one that takes none."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=512 * takes))
        port = server.getsockname()[1]
        while not takes:
            caller = stack.enter_context(socket.socket())
            caller.settimeout(0.3)
            try:
                caller.connect(("127.0.0.1", port))
            except TimeoutError:
                break
        yield Hole(port)


async def until_told(prsm, argv):
    """Run until it is told that nobody answers; return that event and the turn's beginning."""
    process = await asyncio.create_subprocess_exec(
        *prsm.argv(*argv),
        cwd=prsm.workspace,
        env=prsm.env,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        limit=2**20,
    )
    begun, output = None, process.stdout
    assert output is not None
    try:
        async with asyncio.timeout(WITHIN_SECONDS):
            async for line in output:
                event = json.loads(line)
                if event["type"] == "turn_started":
                    begun = event
                if "has not answered yet" in str(event.get("text")):
                    return begun, event
                assert event["type"] != "run_finished", event
    finally:
        process.terminate()
        await process.wait()
    raise AssertionError("the run's output ended")


@pytest.mark.parametrize("takes", [True, False], ids=["silent", "dropped"])
@pytest.mark.parametrize("name", BACKENDS)
async def test_who_does_not_answer_is_told_within_seconds(bare_prsm, name, takes):
    model = {"claude": "claude-scripted-1", "gemini": "gemini-2.5-pro"}
    kind = BACKENDS[name]["kind"]
    with hole(takes=takes) as server:
        defaults = {"provider": "tried", "model": model.get(kind, "scripted-1")}
        given = {"tried": section(BACKENDS[name], server)}
        bare_prsm.write({"defaults": defaults, "providers": given})
        begun, told = await until_told(bare_prsm, ("run", "--json", "Say something"))
    assert HOW_LONG.search(told["text"]), told
    assert told["text"].startswith(f"tried/{defaults['model']} ")
    assert told["ts"] - begun["ts"] <= TOLD_SECONDS
    await bare_prsm.until_gone()
