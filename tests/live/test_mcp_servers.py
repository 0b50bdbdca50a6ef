"""A dead, a hanging and a good MCP server are the same for each vendor's real program."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from prsm_testing.model_server import ModelServer

from prsm_core.domain.agents import PermissionMode
from tests.live.test_same_verdict import CALL_DONE, play, workspace
from tests.live.test_surroundings import SERVER, VENDORS, section_of

pytestmark = [pytest.mark.live, pytest.mark.requirement("U35")]

__all__ = ["workspace"]  # a fixture

GOOD = {"command": sys.executable, "args": ["-I", "-S", str(SERVER)], "env": {"WORD": "plugh"}}
DEAD = {"command": sys.executable, "args": ["-c", "import sys; sys.exit('no database')"]}
HANGING = {
    "command": sys.executable,
    "args": ["-c", "import sys; sys.stdin.read()"],
    "start_seconds": 1.0,
}
# As a server that is slow, or gone, when the vendor starts it after PRSM's trial.
LATER = "import os, sys, time, runpy; later = os.path.exists(sys.argv[1]);"
LATER += " open(sys.argv[1], 'w').close(); "
SLOW = f"{LATER} time.sleep(3 * later); runpy.run_path({str(SERVER)!r})"
GONE = f"{LATER} later and sys.exit('gone'); runpy.run_path({str(SERVER)!r})"
# As a server that is gone as soon as its tool is called.
DROPS = f"import os, sys; text = open({str(SERVER)!r}).read(); text = text.replace("
DROPS += "'return {\"content\"', 'os._exit(3); return {\"content\"'); exec(text)"
NAME = {"codex": "tell_word", "claude": "mcp__good__tell_word", "gemini": "mcp_good_tell_word"}


async def run_with(workspace, name, **servers):
    """Have a worker of a vendor call the good server; return the events and what the model has."""
    section = section_of(name)
    is_codex = section["kind"] == "codex"
    kind = "gemini" if section["kind"] == "acp" else section["kind"]
    by_mcp = {"namespace": "mcp__prsm"} if section.get("backend") == "exec" else {}
    tell: dict[str, Any] = {"tool": NAME[kind], "arguments": {}}
    if is_codex:
        tell["namespace"] = "mcp__good"
    steps = [{"call": tell}, {"call": {**CALL_DONE, **by_mcp}}, {"hang": True}]
    worker = {"name": "worker", "prompt": "Go.", "model": "tried/scripted-1", "wait": True}
    spawn = {"call": {"tool": "spawn_child", "arguments": worker}}
    async with ModelServer({"lanes": {"worker": {"marker": "", "steps": steps}}}) as server:
        url = server.base_url if is_codex else server.root_url
        events = await play(
            workspace,
            {**section, "base_url": url, "api_key_env": "LIVE_TEST_KEY"},
            {},
            lanes={"master": {"steps": [spawn, {"call": CALL_DONE}]}},
            answers=["once"] * 3,
            further={"mcp_servers": servers},
            mode=PermissionMode.BYPASS,
        )
        return events, str([request.body for request in server.requests])


def warnings(events):
    """Return what is told of servers."""
    told = [event.data["text"] for event in events if event.type == "notice"]
    return {text for text in told if "MCP server" in text}


@pytest.mark.parametrize("name", VENDORS)
async def test_a_dead_and_a_hanging_server_are_named_and_the_good_one_works(workspace, name):
    events, said = await run_with(workspace, name, good=GOOD, dead=DEAD, hanging=HANGING)
    assert warnings(events) == {
        "the MCP server dead is left out: it ended with exit code 1: no database",
        "the MCP server hanging is left out: it did not begin within 1 s",
    }
    assert "the word is plugh" in said


@pytest.mark.parametrize("broken", [DEAD, HANGING], ids=["dead", "hanging"])
@pytest.mark.parametrize("name", VENDORS)
async def test_a_required_server_that_does_not_begin_ends_its_agent_by_name(
    workspace, name, broken
):
    required = {**broken, "required": True, "tags": ["Go"]}
    events, said = await run_with(workspace, name, bad=required)
    moves = [event.data for event in events if event.type == "agent_state_changed"]
    (reason,) = [move["reason"] for move in moves if move["to"] == "failed"]
    assert "the MCP server bad is required and cannot be used" in reason
    assert said == "[]"  # no model was asked


def marked(text, mark):
    """Return a server that can tell its first start from later ones."""
    return {"command": sys.executable, "args": ["-c", text, str(mark)], "env": GOOD["env"]}


@pytest.mark.parametrize("name", VENDORS)
async def test_a_slow_server_is_there_in_the_first_request(workspace, name):
    events, said = await run_with(workspace, name, good=marked(SLOW, workspace / "slow"))
    assert "the word is plugh" in said
    assert warnings(events) == set()


@pytest.mark.parametrize("name", VENDORS)
async def test_a_server_that_is_gone_after_its_trial_is_named_and_ends_nobody(workspace, name):
    gone = {each: marked(GONE, workspace / each) for each in ("gone", "lost")}
    events, said = await run_with(workspace, name, good=GOOD, **gone)
    assert "the word is plugh" in said
    found = warnings(events)
    assert all(any(each in text and "not there" in text for text in found) for each in gone)


@pytest.mark.parametrize("name", VENDORS)
async def test_a_server_that_is_lost_in_a_call_is_named_and_ends_nobody(workspace, name):
    dropped = {**GOOD, "args": ["-c", DROPS]}
    events, said = await run_with(workspace, name, good=dropped)
    assert "the word is plugh" not in said
    tools = {e.data["call"]: e.data["tool"] for e in events if e.type == "tool_call_started"}
    ended = [e.data for e in events if e.type == "tool_call_finished"]
    (failed,) = [tools[end["call"]] for end in ended if end["status"] == "failed"]
    assert "good" in failed
    moves = [event.data for event in events if event.type == "agent_state_changed"]
    assert [move["to"] for move in moves].count("completed") == 2
    if section_of(name)["kind"] == "acp" or name == "gemini-acp":
        assert any("The MCP server good is not there" in text for text in warnings(events))
