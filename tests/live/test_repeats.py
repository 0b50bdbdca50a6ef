"""On real programs edits and tests go on by turns for ever, and what only repeats is refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from prsm_testing.model_server import ModelServer

from tests.live.test_same_verdict import CALL_DONE, SECTIONS, play, program, workspace

pytestmark = [pytest.mark.live, pytest.mark.requirement("E16")]

__all__ = ["workspace"]  # a fixture

ROUNDS = 10
TEST = "sh test.sh"  # it fails in the same way each time
SCRIPT = "echo '1 failed'\necho \"took $(date +%N) ns\" >&2\nexit 1\n"
PATCH = "*** Begin Patch\n*** {} File: a.txt\n{}*** End Patch\n"
VENDORS = [*SECTIONS, "claude"]
# Gemini tells no exit code of a command, and over ACP not what it wrote either.
UNTOLD = {"gemini-acp", "gemini-headless", "acp"}


def edits(name):
    """Return one step a round that edits a file in the vendor's own way."""
    first = {"patch": PATCH.format("Add", "+0\n")}
    if name in UNTOLD:  # Gemini's own programs
        files = [{"file_path": "a.txt", "content": f"{n}\n"} for n in range(ROUNDS)]
        return [{"call": {"tool": "write_file", "arguments": file}} for file in files]
    change = "@@\n-{}\n+{}\n"
    later = [{"patch": PATCH.format("Update", change.format(n - 1, n))} for n in range(1, ROUNDS)]
    return [first, *later]


@dataclass
class Played:
    """The events of a worker that played some steps."""

    events: list

    def ends(self, command):
        """How each call of a command ended: its status, and what was told of it."""
        begun = {
            event.data["call"]
            for event in self.events
            if event.type == "tool_call_started" and _command(event) == command
        }
        return [
            (event.data["status"], f"{event.data['result']} {event.data['error']}")
            for event in self.events
            if event.type == "tool_call_finished" and event.data["call"] in begun
        ]

    def edited(self):
        """How often a file was edited."""
        ids = {
            event.data["call"]
            for event in self.events
            if event.type == "tool_call_started" and event.data["tool"] in {"Edit", "Write"}
        }
        ends = [e.data for e in self.events if e.type == "tool_call_finished"]
        return [end["status"] for end in ends if end["call"] in ids]


def _command(event):
    return event.data["arguments"].get("command")


async def playing(workspace, name, steps):
    """Have a worker of a vendor play steps, in bypass mode of its own shell."""
    (workspace / "test.sh").write_text(SCRIPT)
    section: dict[str, Any] = {"kind": "claude"}
    if name != "claude":
        variable, arguments, vendor = SECTIONS[name]
        section = {**vendor, "command": [program(variable), *arguments]}
    else:
        pytest.importorskip("claude_agent_sdk", reason="claude-agent-sdk is not installed")
    by_mcp = {"namespace": "mcp__prsm"} if section.get("backend") == "exec" else {}
    steps = [*steps, {"call": {**CALL_DONE, **by_mcp}}, {"hang": True}]
    async with ModelServer({"lanes": {"worker": {"marker": "", "steps": steps}}}) as server:
        url = server.base_url if section["kind"] == "codex" else server.root_url
        given = {**section, "base_url": url, "api_key_env": "LIVE_TEST_KEY"}
        events = await play(workspace, given, {"allow": [TEST]})
        assert server.failures == []
    return Played(events)


@pytest.mark.parametrize("name", VENDORS)
async def test_ten_rounds_of_edit_and_test_pass(workspace, name):
    steps = [step for edit in edits(name) for step in (edit, {"shell": TEST})]
    played = await playing(workspace, name, steps)
    assert played.edited() == ["completed"] * ROUNDS
    ends = played.ends(TEST)
    assert len(ends) == ROUNDS
    assert not any("this exact command" in told for _, told in ends)
    assert (workspace / "a.txt").read_text() == f"{ROUNDS - 1}\n"


@pytest.mark.parametrize("name", VENDORS)
async def test_the_fourth_time_with_nothing_in_between_is_refused_where_results_are_told(
    workspace, name
):
    steps = [{"shell": TEST}, {"shell": "cat test.sh"}] * 4
    played = await playing(workspace, name, steps)
    *first, (status, told) = played.ends(TEST)
    assert not any("this exact command" in told for _, told in first)
    assert (status == "denied") is (name not in UNTOLD)
    assert ("this exact command failed with exit code 1 3 times" in told) is (name not in UNTOLD)


@pytest.mark.parametrize("name", [name for name in VENDORS if name not in UNTOLD])
async def test_the_vendors_shell_and_run_bash_count_together(workspace, name):
    by_mcp = {"namespace": "mcp__prsm"} if name == "codex-exec" else {}
    by_tool = {"call": {"tool": "run_bash", "arguments": {"command": TEST}, **by_mcp}}
    played = await playing(workspace, name, [{"shell": TEST}, by_tool, by_tool, {"shell": TEST}])
    *first, (status, told) = played.ends(TEST)
    assert not any("this exact command" in told for _, told in first)
    assert (len(first), status) == (3, "denied")
    assert "failed with exit code 1 3 times" in told
