"""The watch over open turns: when it looks, and that one turn never blinds it to another."""

from __future__ import annotations

import asyncio

import pytest
from prsm_testing.fake_clock import FakeClock

from prsm_core.engine.turns.limits import TurnWatch
from prsm_core.kit.background import Background


class Turn:
    """Notes when it was looked at."""

    def __init__(self, clock, every, looks=1, error=None):
        self.clock, self.every, self.looks, self.error = clock, every, looks, error
        self.seen = []

    def look_in(self):
        return self.every

    def look(self):
        self.seen.append(round(self.clock.now()))
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
async def watch(clock, failures):
    async with Background(lambda *failure: failures.append(failure)) as background:
        yield TurnWatch(clock, background)


async def test_each_turn_is_looked_at_in_its_own_time(watch, clock):
    slow, fast = Turn(clock, 10, looks=2), Turn(clock, 3, looks=3)
    watch.add(slow, slow.every)
    watch.add(fast, fast.every)  # sooner than what the watch sleeps for
    await clock.advance(30)
    assert (slow.seen, fast.seen) == ([10, 20], [3, 6, 9])


async def test_a_turn_that_is_over_is_not_looked_at(watch, clock):
    over, open_ = Turn(clock, 5), Turn(clock, 5)
    number = watch.add(over, over.every)
    watch.add(open_, open_.every)
    watch.discard(number)
    watch.discard(number)  # once more does no harm
    await clock.advance(30)
    assert (over.seen, open_.seen) == ([], [5])


async def test_a_turn_that_comes_when_nothing_is_watched_is_looked_at(watch, clock):
    first, second = Turn(clock, 5), Turn(clock, 5)
    watch.add(first, first.every)
    await clock.advance(30)
    watch.add(second, second.every)
    await clock.advance(30)
    assert (first.seen, second.seen) == ([5], [35])


async def test_a_look_that_fails_is_reported_and_the_others_go_on(watch, clock, failures):
    error = RuntimeError("it broke")
    broken, sound = Turn(clock, 5, error=error), Turn(clock, 5, looks=2)
    watch.add(broken, broken.every)
    watch.add(sound, sound.every)
    await clock.advance(30)
    assert failures == [("turn watch", error)]
    assert (broken.seen, sound.seen) == ([5], [5, 10])


async def test_many_turns_take_one_task(watch, clock):
    before = len(asyncio.all_tasks())
    for _ in range(100):
        watch.add(Turn(clock, 5), 5)
    await asyncio.sleep(0)
    assert len(asyncio.all_tasks()) == before + 1


async def test_a_turn_that_must_be_looked_at_sooner_than_it_said_is(watch, clock):
    patient, other = Turn(clock, 100, looks=2), Turn(clock, 40)
    number = watch.add(patient, patient.every)
    watch.add(other, other.every)
    await clock.advance(10)
    patient.every = 5
    watch.hurry(number)
    patient.every = 50
    watch.hurry(number)  # later than planned: the plan stays
    await clock.advance(200)
    assert (patient.seen, other.seen) == ([15, 65], [40])
    watch.hurry(number)  # it is over
    await clock.advance(200)
    assert patient.seen == [15, 65]


async def test_a_turn_is_not_asked_again_for_what_matters_later_than_the_next_look(watch, clock):
    turn = Turn(clock, 40)
    number = watch.add(turn, turn.every)
    turn.every = 5
    await clock.advance(10)
    watch.hurry(number, 30)  # the next look comes first
    await clock.advance(29)
    assert turn.seen == []
    watch.hurry(number, 0.5)
    await clock.advance(10)
    assert turn.seen == [40]
    other = Turn(clock, 40)
    number = watch.add(other, other.every)
    other.every = 5
    watch.hurry(number, 30)
    await clock.advance(100)
    assert other.seen == [54]


async def test_plans_that_change_again_and_again_leave_nothing_behind(watch, clock):
    turn = Turn(clock, 1e6, looks=2)
    number = watch.add(turn, turn.every)
    for sooner in range(1000):
        turn.every = 1e6 - sooner
        watch.hurry(number)
    assert len(watch._due) < 100
    await clock.advance(1e6)
    assert turn.seen == [999_001]
