"""What a person writes beside the calls of real programs is of no agent."""

from __future__ import annotations

import importlib.util
import shutil

import pytest
from prsm_testing.model_server import ModelServer

from prsm_core.domain.agents import PermissionMode
from tests.live.test_same_verdict import CALL_DONE, SECTIONS, WORKER, play, program, workspace

pytestmark = [
    pytest.mark.live,
    pytest.mark.requirement("U27"),
    pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed"),
]

__all__ = ["workspace"]  # a fixture

PATCH = "*** Begin Patch\n*** Update File: kept\n@@\n-text\n+patched\n*** End Patch\n"
FIRST, SECOND, ASKED = "sh makes.sh first.txt", "sh makes.sh second.txt", "touch granted.txt"
STEPS = [{"shell": FIRST}, {"patch": PATCH}, {"shell": ASKED}, {"shell": SECOND}]
THEIRS = {"between.md", "waiting.md"}


def section_of(name, server):
    """Return the configuration of a provider, and the model of its worker."""
    if name == "claude":
        if importlib.util.find_spec("claude_agent_sdk") is None:
            pytest.skip("claude-agent-sdk is not installed")
        model = "claude-scripted-1"
        return {"kind": "claude", "base_url": server.root_url, "models": [model]}, model
    variable, arguments, section = SECTIONS[name]
    command = [program(variable), *arguments]
    return {**section, "command": command, "base_url": server.base_url}, "scripted-1"


@pytest.mark.parametrize("name", ["claude", "codex", "codex-approval"])
async def test_what_a_person_writes_between_calls_and_while_one_waits_is_of_no_agent(
    workspace, name
):
    lanes = {"worker": {"marker": "", "steps": [*STEPS, {"call": CALL_DONE}, {"hang": True}]}}
    async with ModelServer({"lanes": lanes}) as server:
        section, model = section_of(name, server)
        await write_beside(workspace, {**section, "api_key_env": "LIVE_TEST_KEY"}, model)
        assert server.failures == []


async def write_beside(workspace, section, model):
    """Write between calls of a worker, and while one waits; check whose each change is."""
    (workspace / "makes.sh").write_text('sleep 0.1; echo made > "$1"; sleep 0.1\n')
    ended = []

    def person(event):
        """Write between two calls, and while the permission of another one waits."""
        if event.type == "tool_call_finished":
            ended.append(event.data["call"])
            if len(ended) == 2:  # behind the edit
                (workspace / "between.md").write_text("a person's\n")
        elif event.type == "permission_requested":
            (workspace / "waiting.md").write_text("a person's\n")

    events = await play(
        workspace,
        section,
        {"allow": [FIRST, SECOND]},
        worker={**WORKER, "model": f"tried/{model}"},
        answers=["once"],
        person=person,
        mode=PermissionMode.ACCEPT_EDITS,
    )
    assert (workspace / "kept").read_text() == "patched\n"
    found = {event.data["path"]: event.data for event in events if event.type == "file_changed"}
    assert {path: one["how"] for path, one in found.items()} == {
        "between.md": "outside",
        "waiting.md": "outside",
        "first.txt": "possible",
        "second.txt": "possible",
        "granted.txt": "possible",
        "kept": "named",
    }
    assert {path for path, one in found.items() if not one["agents"]} == THEIRS
