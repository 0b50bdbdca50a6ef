"""What a spawn looks at: as much with many siblings as with few."""

from __future__ import annotations

import asyncio
import sys
from contextlib import contextmanager

import pytest

# Where a spawn is decided: the tool, the plan, the records and the mailboxes.
PLACES = ("/engine/tools/family", "/engine/spawn", "/engine/state", "/engine/records", "/router.py")
FEW, MANY, WINDOW = 10, 110, 10


class Lines:
    """Counts the lines that run where a spawn is decided."""

    def __init__(self):
        self.ran = 0

    @contextmanager
    def counting(self):
        before = sys.gettrace()
        sys.settrace(self._called)
        try:
            yield
        finally:
            sys.settrace(before)

    def _called(self, frame, event, _argument):
        return self._line if any(at in frame.f_code.co_filename for at in PLACES) else None

    def _line(self, _frame, event, _argument):
        self.ran += event == "line"
        return self._line


async def lines_of_spawns(agent, cwd):
    lines = Lines()
    for _ in range(WINDOW):
        with lines.counting():
            child = await agent.call("spawn_child", prompt="work", cwd=cwd)
        assert not child["reused"], "giving a child another task takes another way"
    return lines.ran


@pytest.mark.parametrize("read", [False, True], ids=["unread", "read"])
async def test_a_spawn_looks_at_no_more_where_there_are_many_siblings(as_master, read):
    """Those whose results are unread are not free; those of another folder do not fit."""

    async def spawned(agent, count):
        for _ in range(count):
            await agent.call("spawn_child", prompt="work", cwd="other" if read else "one")
            if read:
                await agent.collect()

    async def script(agent, team):
        for folder in ("other", "one", "two"):
            (team.workspace / folder).mkdir()
        await spawned(agent, FEW)
        few = await lines_of_spawns(agent, "one")
        if read:
            await agent.collect(WINDOW)
        fresh = MANY - FEW - WINDOW
        if read:
            children = [{"prompt": "work", "cwd": "other"}] * fresh
            await agent.call("spawn_children_parallel", children=children)
            await agent.collect(fresh)
        else:
            await spawned(agent, fresh)
        many = await lines_of_spawns(agent, "two" if read else "one")
        assert many < 1.2 * few
        await agent.collect(WINDOW if read else MANY + WINDOW)

    await as_master(script, settings={"engine": {"max_concurrent_agents": 200}})


async def test_a_child_restarted_by_its_name_is_not_free_by_what_it_said_before(as_master):
    async def script(agent, team):
        await agent.spawn("one")
        await team.seen("agent_state_changed", "w1", to="completed")
        await agent.call("restart_child", child_id="w1", prompt="two")
        await agent.collect()
        await asyncio.wait({team["w1"].ended()})
        answer = await agent.call("spawn_child", prompt="three")
        assert (answer["name"], answer["reused"]) == ("w2", False)
        await agent.collect(2)

    await as_master(script)


async def test_the_oldest_free_child_is_taken_first(as_master):
    async def script(agent, _):
        for prompt in ("one", "two", "three"):
            await agent.call("spawn_child", prompt=prompt)
        await agent.collect(3)
        again = [await agent.call("spawn_child", prompt="again") for _ in range(4)]
        assert [child["name"] for child in again] == ["w1", "w2", "w3", "w4"]
        await agent.collect(4)

    await as_master(script)
