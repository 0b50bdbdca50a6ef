"""The real Codex and the real Claude are held by one protocol, before a loopback model server."""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

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


NARROW = """# Protocol: narrow
## States
- reading: Look around
  - tools: Grep, {also}
- working: Do it
## Transitions
- reading -> working: When it is clear
"""
PATCH = "*** Begin Patch\n*** Add File: made.txt\n+hi\n*** End Patch"
SMALL = Path(__file__).parents[2] / "prsm_codex" / "tests" / "small_mcp.py"
WORD = {"call": {**call("tell_word", text="a")["call"], "namespace": "mcp__words"}}


def refused(step):
    return {"expect": ["is not for the state 'reading'"], **step}


def each_tool(*, word_is_listed):
    """Have a worker call each tool of Codex where it may not, and some of them where it may."""
    told = {"expect": ["the word is xyz"]} if word_is_listed else refused({})
    steps = [
        {"shell": "cat note.txt"},
        refused({"patch": PATCH}),
        refused({"call": {"tool": "view_image", "arguments": {"path": "picture.png"}}}),
        refused(WORD),
        {**told, **call("state_transition", to="working")},
        {"patch": PATCH},
        {"expect": ["Success"], **WORD},
        {"expect": ["the word is xyz"], **call("task_complete", summary="done")},
    ]
    master = [
        call("state_transition", to="working"),
        call("spawn_child", prompt="task of w1", name="w1", wait=True),
        call("task_complete", summary="done"),
    ]
    lanes = {"m": {"marker": TASK, "steps": master}, "w": {"marker": "task of w1", "steps": steps}}
    return {"lanes": lanes}


def with_words(codex, server):  # noqa: F811 - what the fixture gave
    """Return a configuration of Codex with an MCP server of the person's own."""
    args = ["-I", "-S", str(SMALL)]
    section = {"command": [codex], "base_url": server.base_url, "api_key_env": "LIVE_TEST_KEY"}
    return {
        "defaults": {"model": "scripted-1"},
        "providers": {"codex": section},
        "mcp_servers": {"words": {"command": sys.executable, "args": args, "env": {"WORD": "xyz"}}},
    }


@pytest.mark.requirement("F8")
@pytest.mark.parametrize("also", ["Glob", "mcp__words__tell_word"])
async def test_each_tool_of_codex_is_held_to_the_state_and_what_is_not_is_told_before(
    live,
    codex,  # noqa: F811
    also,
):
    """Its shell, its patches, its pictures, servers of the person: not its web search."""
    live.pages(narrow=NARROW.format(also=also))
    (live.workspace / "picture.png").write_bytes(b"no picture")
    async with play(each_tool(word_is_listed=also != "Glob")) as server:
        live.write(with_words(codex, server))
        code, out, err = await live.run_async(
            *("run", "--provider", "codex", "--trust", "--label", "protocol=narrow"),
            *("--on-ask", "allow", TASK),
        )
    assert code == 0, out + err
    denied = [(one["check"], one["tool"]) for one in live.events("check_denied")]
    names = ("Bash", "Edit", "Read", *(("mcp__words__tell_word",) if also == "Glob" else ()))
    assert denied == [("protocol-states", name) for name in names]
    assert (live.workspace / "made.txt").read_text() == "hi\n"
    events = live.events("notice", "turn_started")
    (first, *_) = [n for n, one in enumerate(events) if one["type"] == "turn_started"]
    before = " ".join(one["text"] for one in events[:first])
    assert "the check protocol-states does not hold all that agents of codex do" in before
    assert "web search runs at the vendor and is not asked" in before


@pytest.mark.requirement("F8")
async def test_claude_is_held_to_its_state_and_the_transition_opens_it(live):
    if importlib.util.find_spec("claude_agent_sdk") is None:
        pytest.skip("claude-agent-sdk is not installed")
    live.pages(inbox=INBOX.replace("tools: Read, Grep", "tools: Grep"))
    async with play(lane(call("Read", file_path=str(live.workspace / "note.txt")))) as server:
        section = {"base_url": server.root_url, "api_key_env": "LIVE_TEST_KEY"}
        await held(live, "claude", "Read", section)
