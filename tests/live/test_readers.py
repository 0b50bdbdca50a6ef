"""Reviewers on real programs look with commands, and are refused all else without a question."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
from prsm_testing.model_server import ModelServer

from prsm_core.domain.agents import PermissionMode
from tests.live.test_modes import GEMINI, VENDORS, write
from tests.live.test_same_verdict import CALL_DONE, SECTIONS, WORKER, play, program, workspace

pytestmark = [pytest.mark.live, pytest.mark.requirement("E23", "E34")]

__all__ = ["workspace"]  # a fixture

REVIEWER = {**WORKER, "role": "reviewer"}
# Gemini sets an empty `diff.external` for its shell, on which a plain `git diff` fails.
LOOKS = {name: "git diff" + " --no-ext-diff" * (name in GEMINI) for name in VENDORS}
CHANGES = "touch made.txt"
RULED = "touch ruled.txt"  # what a rule lets workers run is more than looking


def is_repository(folder):
    """Make a folder a repository with a change that is not committed."""
    (folder / "kept").write_text("as it was\n")
    who = ("-c", "user.name=a", "-c", "user.email=a@b.invalid")
    for arguments in (("init", "-q"), ("add", "kept"), (*who, "commit", "-qm", "first")):
        subprocess.run(["git", "-C", str(folder), *arguments], check=True)
    (folder / "kept").write_text("as it is now\n")


@pytest.mark.parametrize("mode", [{}, {"mode": PermissionMode.BYPASS}], ids=["default", "bypass"])
@pytest.mark.parametrize("name", VENDORS)
async def test_a_reviewer_runs_what_only_reads_and_nobody_is_asked(workspace, name, mode):
    is_repository(workspace)
    section: dict[str, Any] = {"kind": "claude"}
    if name != "claude":
        variable, arguments, vendor = SECTIONS[name]
        section = {**vendor, "command": [program(variable), *arguments]}
    else:
        pytest.importorskip("claude_agent_sdk", reason="claude-agent-sdk is not installed")
    by_mcp = {"namespace": "mcp__prsm"} if section.get("backend") == "exec" else {}
    commands = [{"shell": command} for command in (LOOKS[name], CHANGES, RULED)]
    done: dict[str, Any] = {"call": {**CALL_DONE, **by_mcp}}
    steps = [*commands, write(name, "written.txt"), done, {"hang": True}]
    async with ModelServer({"lanes": {"worker": {"marker": "", "steps": steps}}}) as server:
        url = server.base_url if section["kind"] == "codex" else server.root_url
        given = {**section, "base_url": url, "api_key_env": "LIVE_TEST_KEY"}
        rules = {"allow": [RULED]}
        events = await play(workspace, given, rules, answers=[], worker=REVIEWER, **mode)
        told = server.requests[-1].conversation.text
        assert server.failures == []
    assert "+as it is now" in told
    assert not [event.data for event in events if event.type == "permission_requested"]
    assert sorted(path.name for path in workspace.glob("*.txt")) == []
    ends = {
        event.data["arguments"]["command"]: event.data["call"]
        for event in events
        if event.type == "tool_call_started" and "command" in event.data["arguments"]
    }
    statuses = {e.data["call"]: e.data["status"] for e in events if e.type == "tool_call_finished"}
    assert statuses[ends[LOOKS[name]]] == "completed"
    assert {statuses[ends[command]] for command in (CHANGES, RULED)} == {"denied"}
