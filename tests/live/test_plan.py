"""The plan of a model, as the real program tells it, stands in the ledger."""

from __future__ import annotations

from typing import Any

import pytest
from prsm_testing.model_server import ModelServer

from tests.live.test_same_verdict import DONE, SECTIONS, play, program, workspace

pytestmark = pytest.mark.live

__all__ = ["workspace"]  # a fixture

BEGUN = [{"step": "look", "status": "in_progress"}, {"step": "do", "status": "pending"}]
ENDED = [{"step": "look", "status": "completed"}, {"step": "do", "status": "completed"}]


@pytest.mark.parametrize("name", ["codex", "codex-approval"])
async def test_the_plan_of_codex_is_committed_as_often_as_it_changes(workspace, name):
    variable, _, vendor = SECTIONS[name]
    steps: list[Any] = [
        {"call": {"tool": "update_plan", "arguments": {"plan": plan}}}
        for plan in (BEGUN, BEGUN, ENDED)
    ]
    lane = {"marker": "", "steps": [*steps, DONE, {"hang": True}]}
    async with ModelServer({"lanes": {"worker": lane}}) as server:
        given = {**vendor, "command": [program(variable)], "base_url": server.base_url}
        events = await play(workspace, {**given, "api_key_env": "LIVE_TEST_KEY"}, {})
        assert server.failures == []
    plans = [e.data["entries"] for e in events if e.type == "plan_updated"]
    assert plans == [
        [{"text": step["step"], "status": step["status"]} for step in plan]
        for plan in (BEGUN, ENDED)
    ]
