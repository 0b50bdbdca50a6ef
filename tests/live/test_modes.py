"""In each mode the edits of real programs are made, asked about or refused, as one table says."""

from __future__ import annotations

from typing import Any

import pytest
from prsm_testing.model_server import ModelServer

from prsm_core.domain.agents import PermissionMode
from tests.live.test_same_verdict import CALL_DONE, SECTIONS, play, program, workspace

pytestmark = [pytest.mark.live, pytest.mark.requirement("E36")]

__all__ = ["workspace"]  # a fixture

VENDORS = [*SECTIONS, "claude"]
GEMINI = {"gemini-acp", "gemini-headless", "acp"}
EDITED, ASKED, REFUSED = "edited", "asked", "refused"
# By mode, and by the setting `permissions.edits`.
TABLE = {
    ("default", "allow"): EDITED,
    ("default", "ask"): ASKED,
    ("accept_edits", "ask"): EDITED,
    ("bypass", "ask"): EDITED,
    ("plan", "ask"): REFUSED,
    ("delegate", "ask"): ASKED,  # by the children, which work in default mode
}
NEW = "*** Begin Patch\n*** Add File: {}\n+hello\n*** End Patch\n"


def write(name, path):
    """Return the step that makes a file in a vendor's own way."""
    if name in GEMINI:
        return {"call": {"tool": "write_file", "arguments": {"file_path": path, "content": "x\n"}}}
    return {"patch": NEW.format(path)}


async def playing(workspace, name, steps, mode, edits, answers=()):
    """Have a worker of a vendor play steps; return the events of the run."""
    section: dict[str, Any] = {"kind": "claude"}
    if name != "claude":
        variable, arguments, vendor = SECTIONS[name]
        section = {**vendor, "command": [program(variable), *arguments]}
    else:
        pytest.importorskip("claude_agent_sdk", reason="claude-agent-sdk is not installed")
    by_mcp = {"namespace": "mcp__prsm"} if section.get("backend") == "exec" else {}
    played = [*steps, {"call": {**CALL_DONE, **by_mcp}}, {"hang": True}]
    async with ModelServer({"lanes": {"worker": {"marker": "", "steps": played}}}) as server:
        url = server.base_url if section["kind"] == "codex" else server.root_url
        given = {**section, "base_url": url, "api_key_env": "LIVE_TEST_KEY"}
        chosen = PermissionMode(mode)
        events = await play(workspace, given, {"edits": edits}, answers=answers, mode=chosen)
        assert server.failures == []
    return events


def asked(events):
    """Return what a person was asked about: the tool and its files."""
    requests = [event.data for event in events if event.type == "permission_requested"]
    return [(request["tool"], request["paths"]) for request in requests]


@pytest.mark.parametrize(("mode", "edits"), TABLE)
@pytest.mark.parametrize("name", VENDORS)
async def test_edits_inside_the_workspace_follow_the_mode(workspace, name, mode, edits):
    steps = [write(name, "first.txt"), write(name, "second.txt")]
    events = await playing(workspace, name, steps, mode, edits, answers=["deny", "once"])
    made = [(workspace / path).exists() for path in ("first.txt", "second.txt")]
    wanted = TABLE[mode, edits]
    assert made == {EDITED: [True, True], ASKED: [False, True], REFUSED: [False, False]}[wanted]
    questions = asked(events)
    assert len(questions) == (2 if wanted == ASKED else 0)
    assert all(tool in {"Edit", "Write"} and paths for tool, paths in questions)


@pytest.mark.parametrize("name", [name for name in SECTIONS if name.startswith("codex")])
@pytest.mark.parametrize("mode", ["default", "plan"])
async def test_a_patch_by_codex_s_shell_is_no_way_around_the_question(workspace, name, mode):
    patch = {"shell": f"apply_patch <<'EOF'\n{NEW.format('sly.txt')}EOF\n"}
    events = await playing(workspace, name, [patch], mode, "ask", answers=["deny"])
    assert not (workspace / "sly.txt").exists()
    assert len(asked(events)) == (1 if mode == "default" else 0)
