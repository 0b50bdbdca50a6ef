"""Codex leaves none of the folders that its sandbox creates, also where it kills a command."""

from __future__ import annotations

import os

import pytest
from prsm_testing.model_server import ModelServer

from tests.engine.hostile import until
from tests.live.test_resume import detached
from tests.live.test_tree import lone_agent

pytestmark = pytest.mark.live


@pytest.mark.parametrize("backend", ["app-server", "exec"])
async def test_a_command_that_is_killed_leaves_no_folder_in_the_workspace(prsm, backend):
    command = f"touch began; sleep 1000.{os.getpid()}"
    scenario = lone_agent({"shell": command})
    if backend == "exec":
        for step in scenario["lanes"]["master"]["steps"]:
            step["call"]["namespace"] = "mcp__prsm"
    async with ModelServer(scenario) as server:
        codex = {
            "command": [prsm.codex],
            "backend": backend,
            "base_url": server.base_url,
            "api_key_env": "LIVE_TEST_KEY",
        }
        prsm.write({"defaults": {"model": "scripted-1"}, "providers": {"codex": codex}})
        await detached(prsm, "run", "--on-ask", "allow", "Do it")
        await until(lambda: (prsm.workspace / "began").exists(), "the command runs")
        assert (prsm.workspace / ".git").is_dir()  # else this proves nothing
        code, _, _ = await prsm.run_async("kill", "w1")
        assert code == 0
        await prsm.until_gone()
    assert [path.name for path in prsm.workspace.iterdir()] == ["began"]
