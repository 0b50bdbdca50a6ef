"""A run's time limit holds over all engines that work on it, and in none of the time between."""

from __future__ import annotations

import pytest
from prsm_testing.fake_clock import FakeClock

from prsm_core.domain.ids import Ids
from prsm_core.domain.sessions import RunNow
from prsm_core.engine.agents.resuming import time_left, time_spent
from prsm_core.engine.forking import ForkRequest, fork_session
from prsm_core.errors import ConfigError
from tests.engine.deaths import DIED, die, run_to_death
from tests.engine.harness import SESSION

LIMIT = 90.0


class Wall(FakeClock):
    """A clock whose time of day is set."""

    by = 0.0

    def time(self) -> float:
        return super().time() + self.by


class Scene:
    """A run of 90 s whose engines die: each master sleeps so long, and then its engine is gone."""

    def __init__(self, opened):
        self.clock = Wall()
        self.opened = opened

    def _dies_after(self, team, seconds, wall=0.0):
        async def master(agent):
            await self.clock.sleep(seconds)
            self.clock.by = wall
            await agent.say("still here")
            await die(team)

        return master

    def ids(self):
        return Ids(self.clock.time)

    async def state(self):
        async with self.opened(check=False, clock=self.clock) as team:
            return await team.store.state(SESSION)

    async def begin(self, seconds, wall=0.0):
        """Begin the run; its engine dies after so many seconds, at another time of day."""
        async with self.opened(check=False, clock=self.clock) as team:
            await run_to_death(
                team, options={"timeout_s": LIMIT}, master=self._dies_after(team, seconds, wall)
            )

    async def pass_by(self, seconds):
        """Let time pass in which no engine lives."""
        await self.clock.sleep(seconds)

    async def go_on_until_death(self, seconds, **options):
        """Go on; that engine dies, too."""
        async with self.opened(check=False, clock=self.clock) as team:
            team.provider.behaviours["master"] = self._dies_after(team, seconds)
            with pytest.raises(Exception, match=DIED):
                await team.engine.resume(**options)

    async def go_on(self, **options):
        """Go on with a master that never ends; return the result, and how long that took."""

        async def master(agent):
            await agent.hang()

        async with self.opened(clock=self.clock) as team:
            team.provider.behaviours["master"] = master
            began = self.clock.now()
            result = await team.engine.resume(**options)
            return result, self.clock.now() - began


@pytest.fixture
def scene(opened):
    return Scene(opened)


async def test_what_dead_engines_have_worked_counts_and_the_time_between_does_not(scene):
    await scene.begin(30)
    await scene.pass_by(10_000)
    await scene.go_on_until_death(25)
    await scene.pass_by(10_000)
    result, took = await scene.go_on()
    assert took == pytest.approx(35, abs=6)
    assert (result.status, result.error) == ("killed", "the run's time limit of 90 s is over")


async def test_a_limit_that_is_given_at_a_resume_counts_from_there_and_holds_on(scene):
    await scene.begin(80)
    await scene.go_on_until_death(30, timeout_s=200.0)
    result, took = await scene.go_on()
    assert took == pytest.approx(170, abs=6)
    assert result.error == "the run's time limit of 200 s is over"


async def test_a_run_without_time_is_left_as_it_is_until_it_is_given_some(scene):
    """The machine was suspended for hours, which only the clock on the wall tells."""
    await scene.begin(30, wall=10_000.0)
    before = await scene.state()
    with pytest.raises(ConfigError, match="the run's time limit of 90 s is used up") as refused:
        await scene.go_on()
    assert (refused.value.code, "--timeout" in str(refused.value.hint)) == ("no_time_left", True)
    assert await scene.state() == before
    result, took = await scene.go_on(timeout_s=20.0)
    assert took == pytest.approx(20, abs=6)
    assert result.error == "the run's time limit of 20 s is over"


async def test_a_clock_that_was_set_back_takes_no_time_back(scene):
    await scene.begin(30, wall=-10_000.0)
    _, took = await scene.go_on()
    assert took == pytest.approx(90, abs=6)


async def test_a_fork_has_what_was_left_at_its_point_however_long_ago_that_is(scene):
    await scene.begin(30)
    await scene.pass_by(10_000)
    async with scene.opened(check=False, clock=scene.clock) as team:
        forked = await fork_session(
            team.store, SESSION, ForkRequest(at=None), scene.ids(), scene.clock.time()
        )
        assert await time_spent(team.store, forked) == pytest.approx(30, abs=1)


def test_a_run_without_a_limit_has_none_left():
    run = RunNow(run_id="r", task="t", workspace="/", status="interrupted", epoch=1, started_at=0.0)
    assert time_left(run, 1e9) is None
