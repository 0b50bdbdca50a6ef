"""One tree of three vendors: Claude leads, Codex and Gemini work, each by its real program."""

from __future__ import annotations

import json

import pytest
from prsm_testing.model_server import ModelServer

pytestmark = pytest.mark.live

pytest.importorskip("claude_agent_sdk", reason="claude-agent-sdk is not installed")

WRITER = {
    "prompt": "[[lane:gemini]] Write the report.",
    "model": "gemini/gemini-2.5-pro",
    "name": "writer",
}
COUNTER = {
    "prompt": "[[lane:codex]] Count the files.",
    "model": "codex/scripted-1",
    "name": "counter",
}
SCENARIO = {
    "lanes": {
        "master": {
            "marker": "Build the thing",
            "steps": [
                {"call": {"tool": "spawn_child", "arguments": WRITER}},
                {"call": {"id": "got", "tool": "wait_for_message", "arguments": {}}},
                {
                    "expect": ["How deep?"],
                    "call": {
                        "tool": "respond_to_child",
                        "arguments": {
                            "child_id": "${got.from}",
                            "correlation_id": "${got.correlation_id}",
                            "response": "two",
                        },
                    },
                },
                {"call": {"tool": "spawn_child", "arguments": COUNTER}},
                {"call": {"tool": "wait_for_message", "arguments": {"all": True}}},
                {"call": {"tool": "task_complete", "arguments": {"summary": "three vendors"}}},
            ],
        },
        "codex": {
            "steps": [
                {"call": {"tool": "task_complete", "arguments": {"summary": "codex counted"}}}
            ]
        },
        "gemini": {
            "steps": [
                {
                    "call": {
                        "id": "reply",
                        "tool": "ask_parent",
                        "arguments": {"question": "How deep?"},
                    }
                },
                {
                    "call": {
                        "tool": "task_complete",
                        "arguments": {"summary": "gemini wrote ${reply.answer}"},
                    }
                },
                {"say": "done"},
            ]
        },
    }
}


@pytest.mark.requirement("E13")
async def test_a_tree_of_three_vendors_completes(prsm, gemini):
    key = {"api_key_env": "LIVE_TEST_KEY"}
    async with ModelServer(SCENARIO) as server:
        prsm.write(
            {
                "defaults": {"provider": "claude", "model": "claude-scripted-1"},
                "providers": {
                    "claude": {"base_url": server.root_url, **key},
                    "codex": {"command": [prsm.codex], "base_url": server.base_url, **key},
                    "gemini": {"command": [gemini], "base_url": server.root_url, **key},
                },
            }
        )
        code, out, err = await prsm.run_async("run", "--json", "Build the thing")
        events = [json.loads(line) for line in out.splitlines()]
        assert code == 0, (events[-1:], err)
        assert (events[-1]["type"], events[-1]["summary"]) == ("run_finished", "three vendors")
        assert server.failures == []
        spawned = {e["name"]: e["provider"] for e in events if e["type"] == "agent_spawned"}
        assert spawned == {"master": "claude", "counter": "codex", "writer": "gemini"}
        results = [event["text"] for event in events if event["type"] == "message_completed"]
        assert results
        ends = {
            event["agent"]: event["to"]
            for event in events
            if event["type"] == "agent_state_changed"
        }
        assert set(ends.values()) == {"completed"}
        answered = [
            json.loads(event["result"])
            for event in events
            if event["type"] == "tool_call_finished" and event.get("result")
        ]
        assert any(answer.get("answer") == "two" for answer in answered)
        tree = json.loads(prsm.run("tree", "--json").stdout)
        [master] = tree["agents"]
        assert {child["provider"] for child in master["children"]} == {"codex", "gemini"}
    await prsm.until_gone()
    assert prsm.processes() == []

    session = events[-1]["session"]
    assert said_in(prsm)
    assert prsm.run("sessions", "delete", session, "--yes").returncode == 0
    assert said_in(prsm) == []


def said_in(prsm):
    """Return the files of PRSM that hold what an agent was told."""
    told = [text.encode() for text in ("Build the thing", "Count the files", "Write the report")]
    files = [path for path in (prsm.home / "prsm").rglob("*") if path.is_file()]
    return [
        str(path.relative_to(prsm.home))
        for path in files
        if any(text in path.read_bytes() for text in told)
    ]
