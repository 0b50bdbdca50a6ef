"""Few of a vendor's processes start at one time, and a slow start holds up nobody for long."""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager

from prsm_testing.fake_clock import FakeClock

from prsm_core.engine.providers.residents import LONGEST_SECONDS, begin_start
from tests.engine.harness import open_team
from tests.engine.residents import OWN, ResidentProvider

CHILDREN = 6


class CountingProvider(ResidentProvider):
    """Knows how many of its sessions were being opened at one time."""

    opening = 0
    most = 0

    @asynccontextmanager
    async def open_session(self, request, host):
        self.opening += 1
        self.most = max(self.most, self.opening)
        async with super().open_session(request, host) as session:
            self.opening -= 1
            yield session


async def test_agents_that_are_spawned_together_start_in_turns(tmp_path):
    async def master(agent):
        children = [{"name": f"w{number}", "prompt": "work"} for number in range(CHILDREN)]
        await agent.call("spawn_children_parallel", children=children)
        await agent.collect(CHILDREN)
        await agent.complete()

    async with open_team(
        tmp_path,
        engine={"max_concurrent_agents": CHILDREN + 1},
        make_provider=CountingProvider,
        capabilities=OWN["call"],
        gives_tokens=True,
    ) as team:
        assert (await team.run("do it", master=master)).status == "completed"
        assert team.provider.most <= max(1, len(os.sched_getaffinity(0)) // 2)


async def test_a_start_that_hangs_gives_its_turn_away_and_no_more_than_that():
    clock = FakeClock(autojump=False)
    starts = asyncio.Semaphore(1)
    hanging = await begin_start(starts, clock)
    second, third = (asyncio.ensure_future(begin_start(starts, clock)) for _ in range(2))
    await clock.advance(LONGEST_SECONDS - 0.1)
    assert not second.done()
    await clock.advance(0.1)
    assert second.done()
    hanging.close()
    await asyncio.sleep(0)
    assert not third.done()
    (await second).close()
    (await third).close()
