"""A whole run: from the task to run_finished."""

from __future__ import annotations

import pytest


async def test_smoke(team):
    async def master(agent):
        await agent.call("spawn_children_parallel", children=[{"prompt": "a"}, {"prompt": "b"}])
        await agent.collect(2)
        await agent.complete("all done")

    result = await team.run(master=master)
    assert (result.status, result.summary, result.exit_code) == ("completed", "all done", 0)
