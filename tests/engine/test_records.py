"""Records of agents: what their ends are told by."""

from __future__ import annotations

import asyncio

import pytest
from prsm_testing.steps import Steps

from prsm_core.engine.state import AgentRecord


@pytest.fixture
def record() -> AgentRecord:
    return AgentRecord(Steps().descriptor("w1"))


async def test_all_who_wait_for_an_end_hear_of_it(record: AgentRecord):
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        for _ in range(2):
            group.create_task(asyncio.wait({record.ended()}))
        leaves = group.create_task(asyncio.wait({record.ended()}))
        await asyncio.sleep(0)
        leaves.cancel()
        await asyncio.sleep(0)
        assert not record.has_ended
        record.end()
    assert record.ended().done()


async def test_who_asks_after_an_end_hears_of_it_too(record: AgentRecord):
    record.end()
    await asyncio.wait({record.ended()})
    assert record.ended().done()


async def test_a_next_life_has_an_end_of_its_own(record: AgentRecord):
    first = record.ended()
    record.end()
    record.begin_incarnation("again", record.state, now=1.0)
    assert (first.done(), record.has_ended, record.ended().done()) == (True, False, False)
