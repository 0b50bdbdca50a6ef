"""On real programs only a command that is known to have succeeded speaks for a result."""

from __future__ import annotations

from typing import Any

import pytest
from prsm_testing.model_server import ModelServer

from tests.live.test_same_verdict import CALL_DONE, SECTIONS, play, program, workspace

pytestmark = [pytest.mark.live, pytest.mark.requirement("U13", "F9")]

__all__ = ["workspace"]  # a fixture

SPEAKS, SILENT = "sh speaks.sh", "sh silent.sh"
FAILS, FAILS_SILENT, DIFFERS = "sh fails.sh", "sh fails-silent.sh", "diff kept speaks.sh"
SCRIPTS = {
    "speaks.sh": "echo 3 passed\n",
    "silent.sh": "true\n",
    "fails.sh": "echo 3 failed\nexit 1\n",
    "fails-silent.sh": "exit 1\n",
}
VENDORS = [*SECTIONS, "claude"]
# Over ACP Gemini tells nothing of how a command ended, without it only of one that wrote nothing.
KNOWN = {name: {SPEAKS, SILENT} for name in VENDORS} | {
    "gemini-acp": set(),
    "acp": set(),
    "gemini-headless": {SILENT},
}


async def claiming(workspace, name, *commands):
    """Have a worker run commands in its own shell and claim them; return how it ended."""
    for script, text in SCRIPTS.items():
        (workspace / script).write_text(text)
    section: dict[str, Any] = {"kind": "claude"}
    if name != "claude":
        variable, arguments, vendor = SECTIONS[name]
        section = {**vendor, "command": [program(variable), *arguments]}
    else:
        pytest.importorskip("claude_agent_sdk", reason="claude-agent-sdk is not installed")
    by_mcp = {"namespace": "mcp__prsm"} if section.get("backend") == "exec" else {}
    claim: dict[str, Any] = {"summary": "ran them", "commands": list(commands)}
    done: dict[str, Any] = {"call": {**CALL_DONE, **by_mcp, "arguments": claim}}
    steps: list[Any] = [*({"shell": command} for command in commands), done, {"hang": True}]
    async with ModelServer({"lanes": {"worker": {"marker": "", "steps": steps}}}) as server:
        url = server.base_url if section["kind"] == "codex" else server.root_url
        given = {**section, "base_url": url, "api_key_env": "LIVE_TEST_KEY"}
        events = await play(workspace, given, {"allow": list(commands)})
        assert server.failures == []
    ends = [e.data for e in events if e.type == "agent_state_changed" and e.data.get("evidence")]
    return ends[0]  # the worker's, which ends before the master


@pytest.mark.parametrize("name", VENDORS)
async def test_a_command_that_failed_never_speaks_for_a_result(workspace, name):
    failing = (FAILS, FAILS_SILENT, DIFFERS)
    end = await claiming(workspace, name, *failing)
    assert end["evidence"] == "claimed"
    assert [gap.split("`")[1] for gap in end["evidence_gaps"]] == list(failing)


@pytest.mark.parametrize("name", VENDORS)
async def test_a_command_that_succeeded_speaks_for_a_result_where_the_vendor_says_so(
    workspace, name
):
    end = await claiming(workspace, name, SPEAKS, SILENT)
    unknown = [command for command in (SPEAKS, SILENT) if command not in KNOWN[name]]
    assert end["evidence_gaps"] == [
        f"`{command}` ended, but its exit code is not known" for command in unknown
    ]
    assert end["evidence"] == ("claimed" if unknown else "checked")
