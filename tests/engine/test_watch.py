"""When a turn is looked at, and that one turn never blinds the engine to another."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from prsm_testing.fake_clock import FakeClock

from prsm_core.engine.turns.limits import TurnLimits
from prsm_core.kit.background import Background


class Turn(TurnLimits, eq=False, kw_only=True):
    """Notes when it was looked at."""

    every: float
    looks: int = 1
    error: Exception | None = None
    seen: list[int] = msgspec.field(default_factory=list)

    def look_in(self):
        return self.every

    def look(self):
        self.seen.append(round(self.time.now()))
        if self.error is not None:
            raise self.error
        return len(self.seen) < self.looks


@pytest.fixture
def clock():
    return FakeClock(autojump=False)


@pytest.fixture
def failures():
    return []


@pytest.fixture
async def begun(clock, failures):
    """Return what begins a turn that is to be looked at in so many seconds."""
    async with Background(lambda *failure: failures.append(failure)) as background:

        def begin(every, **about):
            # Looks use no more of these.
            begun: Any = SimpleNamespace(soonest=0.0, error=None, background=background)
            turn = Turn(
                turn=begun,
                clock=begun,
                time=clock,
                allowance=begun,
                stop=begun,
                every=every,
                **about,
            )
            turn.begin()
            return turn

        yield begin


async def test_each_turn_is_looked_at_in_its_own_time(begun, clock):
    slow, fast = begun(10, looks=2), begun(3, looks=3)
    await clock.advance(30)
    assert (slow.seen, fast.seen) == ([10, 20], [3, 6, 9])


async def test_a_turn_that_is_over_is_not_looked_at(begun, clock):
    over, open_ = begun(5), begun(5)
    over.end()
    over.end()  # once more does no harm
    over.hurry()
    await clock.advance(30)
    assert (over.seen, open_.seen) == ([], [5])


async def test_a_turn_that_begins_again_is_looked_at_again(begun, clock):
    turn = begun(5, looks=1)
    await clock.advance(30)
    turn.begin()
    await clock.advance(30)
    assert turn.seen == [5, 35]


async def test_a_look_that_fails_is_reported_and_the_others_go_on(begun, clock, failures):
    error = RuntimeError("it broke")
    broken, sound = begun(5, error=error), begun(5, looks=2)
    await clock.advance(30)
    assert failures == [("turn watch", error)]
    assert (broken.seen, sound.seen) == ([5], [5, 10])


async def test_turns_take_no_task(begun):
    before = len(asyncio.all_tasks())
    turns = [begun(5) for _ in range(100)]
    await asyncio.sleep(0)
    assert len(asyncio.all_tasks()) == before
    assert len(turns) == 100


async def test_a_turn_that_must_be_looked_at_sooner_than_it_said_is(begun, clock):
    patient, other = begun(100, looks=2), begun(40)
    await clock.advance(10)
    patient.every = 5
    patient.hurry()
    patient.every = 50
    patient.hurry()  # later than planned: the plan stays
    await clock.advance(200)
    assert (patient.seen, other.seen) == ([15, 65], [40])
    patient.hurry()  # it is over
    await clock.advance(200)
    assert patient.seen == [15, 65]


async def test_a_turn_is_not_asked_again_for_what_matters_later_than_the_next_look(begun, clock):
    turn = begun(40)
    turn.every = 0.5
    await clock.advance(38)
    turn.clock.soonest = 3.0
    turn.hurry()  # the next look comes first
    await clock.advance(1)
    assert turn.seen == []
    await clock.advance(10)
    assert turn.seen == [40]
    other = begun(40)
    other.every, other.clock.soonest = 5, 3.0
    other.hurry()
    await clock.advance(100)
    assert other.seen == [54]


async def test_a_plan_that_changes_again_and_again_is_kept_once(begun, clock):
    turn = begun(1e6, looks=2)
    for sooner in range(1000):
        turn.every = 1e6 - sooner
        turn.hurry()
    await clock.advance(1e6)
    assert turn.seen == [999_001]
