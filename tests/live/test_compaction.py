"""A real Codex whose model refuses a prompt as too long goes on from a summary."""

from __future__ import annotations

import sqlite3

import pytest
from prsm_testing.model_server import ModelServer

pytestmark = pytest.mark.live

SUMMARY = "SUMMARY: the child has counted to seven"
LANES = {
    "lanes": {
        "master": {
            "marker": "Build the thing",
            "steps": [
                {
                    "call": {
                        "tool": "spawn_child",
                        "arguments": {"prompt": "[[lane:child]] Count.", "wait": True},
                    }
                },
                {
                    "error": {
                        "status": 400,
                        "code": "context_length_exceeded",
                        "message": "Your input exceeds the context window of this model.",
                    }
                },
                {"expect": ["<conversation_so_far>", "spawn_child"], "say": SUMMARY},
                {
                    "expect": [SUMMARY, "Build the thing"],
                    "call": {"tool": "task_complete", "arguments": {"summary": "seven"}},
                },
            ],
        },
        "child": {
            "steps": [{"call": {"tool": "task_complete", "arguments": {"summary": "1 to 7"}}}]
        },
    }
}


@pytest.mark.requirement("N24")
async def test_a_real_codex_goes_on_from_a_summary_once_its_context_is_full(prsm):
    async with ModelServer(LANES) as server:
        prsm.configure(server.base_url)
        code, out, err = await prsm.run_async("run", "Build the thing")
        assert (code, out.strip()) == (0, "seven"), err
        assert server.failures == []
        assert server.unplayed == {}
    assert "goes on from a summary" in err
    [ledger] = prsm.home.rglob("ledger.db")
    with sqlite3.connect(ledger) as read:
        turns = read.execute(
            "SELECT turn_type, status FROM turns JOIN agents USING (agent_id)"
            " WHERE name = 'master' ORDER BY turn_no"
        ).fetchall()
        [row] = read.execute("SELECT summary, trigger FROM compactions").fetchall()
    assert turns == [("normal", "failed"), ("compaction", "completed"), ("normal", "completed")]
    assert row == (SUMMARY, "overflow_recovery")
    await prsm.until_gone()
