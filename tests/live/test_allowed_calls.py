"""On real programs the ledger has each call that was allowed, once, whatever its vendor tells."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
from prsm_testing.model_server import ModelServer

from prsm_core.cli.reading import print_history
from tests.live.test_same_verdict import CALL_DONE, SECTIONS, play, program, workspace

pytestmark = [pytest.mark.live, pytest.mark.requirement("N9")]

__all__ = ["workspace"]  # a fixture

# The text of the first does not say that it writes the repository.
COMMANDS = ["G=git; $G add kept", "echo one > made.txt", "cat never-there", "echo one > made.txt"]
VENDORS = [*SECTIONS, "claude"]
# How the first may end: Codex's sandbox stops it, of which `codex exec` may tell nothing.
STOPPED = {"codex": {"failed"}, "codex-exec": {"failed", "unknown"}}
# These tell no exit code, and so a failed command is completed.
NO_CODES = {"gemini-acp", "gemini-headless", "acp"}


@pytest.fixture
def repository(workspace):
    """The workspace as a repository."""
    subprocess.run(("git", "init", "-q", str(workspace)), check=True)
    return workspace


async def played(workspace, name, commands):
    """Have a worker of a vendor run commands that a person allows; return the events."""
    section: dict[str, Any] = {"kind": "claude"}
    if name != "claude":
        variable, arguments, vendor = SECTIONS[name]
        section = {**vendor, "command": [program(variable), *arguments]}
    else:
        pytest.importorskip("claude_agent_sdk", reason="claude-agent-sdk is not installed")
    by_mcp = {"namespace": "mcp__prsm"} if section.get("backend") == "exec" else {}
    steps = [{"shell": command} for command in commands]
    steps += [{"call": {**CALL_DONE, **by_mcp}}, {"hang": True}]
    async with ModelServer({"lanes": {"worker": {"marker": "", "steps": steps}}}) as server:
        url = server.base_url if section["kind"] == "codex" else server.root_url
        given = {**section, "base_url": url, "api_key_env": "LIVE_TEST_KEY"}
        events = await play(workspace, given, {}, answers=["once"] * len(commands))
        assert server.failures == []
    return events


@pytest.mark.parametrize("name", VENDORS)
async def test_each_allowed_command_is_one_call_and_has_one_end(repository, name, capsys):
    events = await played(repository, name, COMMANDS)
    begun = {
        event.data["call"]: event.data["arguments"]["command"]
        for event in events
        if event.type == "tool_call_started" and not event.data["orchestration"]
    }
    ends = [
        event.data
        for event in events
        if event.type == "tool_call_finished" and event.data["call"] in begun
    ]
    assert list(begun.values()) == COMMANDS
    assert sorted(end["call"] for end in ends) == sorted(begun)
    allowed = [e for e in events if e.type == "permission_resolved"]
    assert {event.data["verdict"] for event in allowed} == {"once"}
    status = {end["call"]: end["status"] for end in ends}
    failed = "completed" if name in NO_CODES else "failed"
    stopped, *others = [status[call] for call in begun]
    assert stopped in STOPPED.get(name, {"completed"})
    assert others == ["completed", failed, "completed"]
    await print_history(str(repository), None, "worker", detail="full", as_json=False)
    if name == "codex":
        assert "Read-only file system" in capsys.readouterr().out
