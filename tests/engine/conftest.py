"""Teams of scripted agents for the tests of the engine."""

from __future__ import annotations

from functools import partial

import pytest
from prsm_testing.fake_clock import FakeClock

from tests.engine.harness import open_team
from tests.engine.residents import open_residents


@pytest.fixture
def opened(tmp_path):
    """Open a team with options of its own: `async with opened(engine={...}) as team`."""
    return partial(open_team, tmp_path)


@pytest.fixture
async def team(opened):
    """A team on the real clock, without a person."""
    async with opened() as team:
        yield team


@pytest.fixture
async def fast_team(opened):
    """A team whose time moves by itself as soon as nothing runs."""
    async with opened(clock=FakeClock()) as team:
        yield team


@pytest.fixture
def as_master(opened):
    """Run `script(agent, team)` as the master, then complete; return the team, closed.

    `team` holds the behaviours of others, `options` are of the run, the rest opens the team.
    """

    async def run(script, options=None, *, team=None, **fields):
        async with opened(**fields) as running:

            async def master(agent):
                await script(agent, running)
                await agent.complete()

            result = await running.run("do it", options, master=master, **(team or {}))
            assert result.status == "completed", result
        return running

    return run


@pytest.fixture
def fast_clock():
    """A clock that jumps to the next sleeper as soon as nothing runs."""
    return FakeClock()


@pytest.fixture
def parked(tmp_path):
    """Open a team of agents with a process each: `async with parked(limit) as team`."""
    return partial(open_residents, tmp_path)
