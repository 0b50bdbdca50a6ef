"""Without a person the questions of real programs end as the user has said."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from prsm_testing.model_server import ModelServer

from tests.live.test_same_verdict import CALL_DONE, PERSON, play, workspace

pytestmark = [pytest.mark.live, pytest.mark.requirement("D10", "E17")]

__all__ = ["workspace"]  # a fixture

NOBODY = replace(PERSON, interactive=False)
OPTIONS = [{"label": label, "description": label} for label in ("red", "blue")]
ASKED = {"header": "Pick", "question": "Which?", "options": OPTIONS, "multiSelect": True}
BY_CLAUDE = {"tool": "AskUserQuestion", "arguments": {"questions": [ASKED]}}
OFFERED = {"tool": "ask_user", "arguments": {"question": "Which?", "options": ["red", "blue"]}}
FREE = {"tool": "ask_user", "arguments": {"question": "Why?"}}


async def asking(workspace, on_ask):
    """Have a worker on the real Claude ask in all its ways; return the answers and its outputs."""
    pytest.importorskip("claude_agent_sdk", reason="claude-agent-sdk is not installed")
    ours = [{"call": {**call, "namespace": "mcp__prsm"}} for call in (OFFERED, FREE)]
    steps: list[Any] = [{"call": BY_CLAUDE}, *ours, {"call": CALL_DONE}, {"hang": True}]
    async with ModelServer({"lanes": {"worker": {"marker": "", "steps": steps}}}) as server:
        section = {"kind": "claude", "base_url": server.root_url, "api_key_env": "LIVE_TEST_KEY"}
        events = await play(workspace, section, {}, frontend=NOBODY, on_ask=on_ask)
        assert server.failures == []
        text = server.requests[-1].conversation.text
    return [(e.data["answer"], e.data["by"]) for e in events if e.type == "question_answered"], text


async def test_on_ask_allow_gives_the_first_option_or_an_empty_text(workspace):
    answers, told = await asking(workspace, "allow")
    first = {"choices": ["red"], "text": None}
    assert answers == [
        (first, "on_ask"),
        (first, "on_ask"),
        ({"choices": [], "text": ""}, "on_ask"),
    ]
    assert '"Which?"="red"' in told


async def test_on_ask_deny_leaves_questions_unanswered_and_says_so(workspace):
    answers, told = await asking(workspace, "deny")
    assert answers == [(None, "headless")] * 3
    assert "no person is attached" in told
