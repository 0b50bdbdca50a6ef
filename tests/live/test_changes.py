"""What real programs change by patch, by shell and by write is told with its agent and its call."""

from __future__ import annotations

import shutil

import pytest
from prsm_testing.model_server import ModelServer

from prsm_core.domain.agents import PermissionMode
from tests.live.test_same_verdict import CALL_DONE, SECTIONS, play, program, workspace

pytestmark = [
    pytest.mark.live,
    pytest.mark.requirement("D21"),
    pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed"),
]

__all__ = ["workspace"]  # a fixture

PATCH = "*** Begin Patch\n*** Update File: kept\n@@\n-text\n+patched\n*** End Patch\n"
COMMAND = "sh makes.sh"
STEPS = [{"patch": PATCH}, {"shell": COMMAND}]


@pytest.mark.parametrize("name", ["codex", "codex-approval"])
async def test_a_patch_and_a_command_of_codex_are_told_from_each_other(workspace, name):
    (workspace / "makes.sh").write_text("sleep 0.3; echo made > made.txt; sleep 0.3\n")
    variable, arguments, section = SECTIONS[name]
    given = {**section, "command": [program(variable), *arguments]}
    steps = [*STEPS, {"call": CALL_DONE}, {"hang": True}]
    async with ModelServer({"lanes": {"worker": {"marker": "", "steps": steps}}}) as server:
        given |= {"base_url": server.base_url, "api_key_env": "LIVE_TEST_KEY"}
        rules = {"allow": [COMMAND]}
        events = await play(workspace, given, rules, mode=PermissionMode.ACCEPT_EDITS)
        assert server.failures == []
    assert (workspace / "kept").read_text() == "patched\n"
    names = {event.agent: event.data["name"] for event in events if event.type == "agent_spawned"}
    calls = {
        event.data["call"]: event.data["tool"]
        for event in events
        if event.type == "tool_call_started"
    }
    found = {
        event.data["path"]: (names[event.agent], event.data["how"], calls[event.data["call"]])
        for event in events
        if event.type == "file_changed"
    }
    assert set(found) == {"kept", "made.txt"}
    assert {name for name, _, _ in found.values()} == {"worker"}
    assert found["made.txt"][1:] == ("possible", "Bash")
    assert found["kept"][1] == "named"
    assert found["kept"][2] in {"Edit", "Write"}
