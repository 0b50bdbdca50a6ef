"""A real Claude and a real Codex in one tree, seen and answered on the screen of a terminal."""

from __future__ import annotations

import asyncio

import pytest
from prsm_testing.model_server import ModelServer

from plugins.prsm_tui.tests.terminals import CTRL_C, F2, PRSM, Terminal
from tests.live.conftest import bare_prsm, codex, prsm  # noqa: F401 - fixtures

pytestmark = pytest.mark.live

pytest.importorskip("claude_agent_sdk", reason="claude-agent-sdk is not installed")

COUNTER = {
    "prompt": "[[lane:codex]] Count the files.",
    "model": "codex/scripted-1",
    "name": "counter",
    "wait": True,
}
QUESTION = {"question": "Which files count?", "options": ["all", "sources"]}
LANES = {
    "master": {
        "marker": "Build the thing",
        "steps": [
            {
                "say": "I look **first**.",
                "call": {"tool": "spawn_child", "arguments": COUNTER},
            },
            {"call": {"tool": "task_complete", "arguments": {"summary": "Both have said it."}}},
        ],
    },
    "codex": {
        "steps": [
            {
                "say": "I am the counter.",
                "call": {"id": "which", "tool": "ask_user", "arguments": QUESTION},
            },
            {"call": {"tool": "task_complete", "arguments": {"summary": "counted"}}},
        ]
    },
}


def configuration(runner, server):
    key = {"api_key_env": "LIVE_TEST_KEY"}
    return {
        "defaults": {"provider": "claude", "model": "claude-scripted-1"},
        "providers": {
            "claude": {"base_url": server.root_url, **key},
            "codex": {"command": [runner.codex], "base_url": server.base_url, **key},
        },
    }


def watch(terminal):
    """Do what a person does who sees the tree, goes into the child, and answers it."""
    terminal.sees("I look first.", "NEEDS YOU: 1", "counter")
    terminal.type("/open counter\r")
    terminal.sees("master / counter", "codex/scripted-1", "I am the counter.")
    terminal.type("half a thought")
    terminal.type(F2)
    terminal.sees("Which files count?", "2. sources", "a number or a text")
    terminal.type("2\r")
    terminal.sees("Nothing waits for you")
    terminal.type(F2)
    terminal.sees("half a thought", "sources")
    terminal.click(*terminal.find("claude/"))
    terminal.sees("Both have said it.", "the run is completed", "claude/claude-scripted-1")
    terminal.type(CTRL_C)
    terminal.sees("Ctrl+C again leaves: no run is open")
    terminal.type(CTRL_C)
    return terminal.ends()


@pytest.mark.requirement("D5")
async def test_both_are_seen_and_the_child_is_answered_on_the_screen(prsm):  # noqa: F811
    async with ModelServer({"lanes": LANES}) as server:
        prsm.write(configuration(prsm, server))
        env = {**prsm.env, "TERM": "xterm-256color", "LANG": "C.UTF-8"}
        argv = [str(PRSM), "run", "Build the thing", "--ui", "tui"]
        terminal = Terminal(argv, env, 40, 160, cwd=prsm.workspace)
        try:
            code = await asyncio.to_thread(watch, terminal)
        finally:
            terminal.close()
        assert code == 0
        assert server.failures == []
    await prsm.until_gone()
    assert prsm.processes() == []
