"""The real Codex and the real Claude are held by one protocol, before a loopback model server."""

from __future__ import annotations

import importlib.util
import os
import signal
from contextlib import suppress

import pytest

from plugins.prsm_protocols.tests.conftest import IDLE, INBOX
from plugins.prsm_protocols.tests.test_runs import Protocols, call
from tests.live.conftest import codex  # noqa: F401 - a fixture
from tests.live.test_tree import play
from tests.person import room

pytestmark = pytest.mark.live

TASK = "work through the mail"


def steps(read):
    """Read a note where that is not allowed, move, and read it; then do what is always allowed."""
    return [
        read,
        {"expect": ["is not for the state 'inbox'"],
         **call("state_transition", to="deep_work", context={"why": "a task"})},
        {"expect": ["Focused task execution"], **read},
        {"expect": ["hello from the note"], **call("message_send", to="nobody", text="x")},
        {"expect": ["no live agent of the run is called"],
         **call("measure", name="mails", value=3)},
        call("task_complete", summary="done"),
    ]  # fmt: skip


def lane(read):
    return {"lanes": {"m": {"marker": TASK, "steps": steps(read)}}}


@pytest.fixture
def live():
    """A `prsm` whose home a vendor's sandbox is not open for, with two pages."""
    runner = Protocols(room())
    runner.pages(inbox=INBOX, idle=IDLE)
    (runner.workspace / "note.txt").write_text("hello from the note")
    try:
        yield runner
    finally:
        for pid in runner.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


async def held(runner, provider, tool, section):
    """Run a master of a vendor under the protocol, and see that it was held to it."""
    runner.write(
        {"defaults": {"model": "scripted-1"}, "providers": {provider: section}},
    )
    code, out, err = await runner.run_async(
        "run", "--provider", provider, "--trust", "--label", "protocol=inbox",
        "--on-ask", "allow", TASK,
    )  # fmt: skip
    assert code == 0, out + err
    assert runner.states() == ["deep_work"]
    denied = [(one["check"], one["tool"]) for one in runner.events("check_denied")]
    assert denied == [("protocol-states", tool)]
    calls = {one["tool"] for one in runner.events("tool_call_started")}
    assert {"state_transition", "message_send", "measure"} <= calls


@pytest.mark.requirement("F8")
async def test_codex_is_held_to_its_state_and_the_transition_opens_it(live, codex):  # noqa: F811
    async with play(lane({"shell": "cat note.txt"})) as server:
        section = {
            "command": [codex],
            "base_url": server.base_url,
            "api_key_env": "LIVE_TEST_KEY",
        }
        await held(live, "codex", "Bash", section)


@pytest.mark.requirement("F8")
async def test_claude_is_held_to_its_state_and_the_transition_opens_it(live):
    if importlib.util.find_spec("claude_agent_sdk") is None:
        pytest.skip("claude-agent-sdk is not installed")
    live.pages(inbox=INBOX.replace("tools: Read, Grep", "tools: Grep"))
    async with play(lane(call("Read", file_path=str(live.workspace / "note.txt")))) as server:
        section = {"base_url": server.root_url, "api_key_env": "LIVE_TEST_KEY"}
        await held(live, "claude", "Read", section)
