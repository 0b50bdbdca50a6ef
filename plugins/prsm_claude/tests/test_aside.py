"""What the engine asks Claude beside an agent's own work: a text, for which it has no tool."""

from __future__ import annotations

import asyncio

import pytest
from prsm_claude.plugin import prsm_providers
from prsm_testing.model_server import ModelServer

from tests.engine.harness import open_team

SPEC = next(iter(prsm_providers()))
ANSWER = {"lanes": {"any": {"marker": "", "steps": [{"say": "The mended shop"}]}}}


async def patient(agent):
    """End once the question about the session's name is over."""
    naming = [task for task in asyncio.all_tasks() if task.get_name() == "naming the session"]
    await asyncio.wait(naming)
    await agent.complete("done")


@pytest.mark.requirement("E69")
async def test_a_text_is_asked_of_it_in_a_session_without_any_tool(command, tmp_path):
    async with ModelServer(ANSWER) as server:
        claude = {
            "command": command,
            "base_url": server.root_url,
            "env": {"HOME": str(tmp_path)},
        }
        settings = {
            "defaults": {"provider": "script"},
            "sessions": {"auto_name": "model", "name_model": "claude"},
            "providers": {"claude": claude},
        }
        async with open_team(tmp_path, settings=settings, others=[SPEC]) as team:
            result = await team.run("mend the shop", master=patient)
            [session] = await team.store.sessions()
            assert team.ledger.one("SELECT count(*) FROM agents") == 1
        assert server.failures == []
    assert (result.status, session.name) == ("completed", "The mended shop")
    [request] = server.requests
    assert request.body.get("tools", []) == []
    assert "mend the shop" in request.conversation.user[-1]
