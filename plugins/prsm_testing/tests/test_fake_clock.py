"""FakeClock: virtual time for tests."""

from __future__ import annotations

import asyncio

import pytest
from prsm_testing.fake_clock import FakeClock


async def test_sleeping_takes_virtual_time_only():
    clock = FakeClock()
    began = asyncio.get_running_loop().time()
    await clock.sleep(3600)
    assert clock.now() == 3600
    assert clock.time() - FakeClock().time() == 3600
    assert asyncio.get_running_loop().time() - began < 5


async def test_sleepers_wake_in_the_order_of_their_deadlines():
    clock, woken = FakeClock(), []

    async def sleeper(name, *naps):
        for nap in naps:
            await clock.sleep(nap)
        woken.append((name, clock.now()))

    await asyncio.gather(sleeper("a", 5, 5), sleeper("b", 7), sleeper("c", 1, 1, 1), sleeper("d"))
    assert woken == [("d", 0), ("c", 3), ("b", 7), ("a", 10)]


@pytest.mark.parametrize("seconds", [0, -1])
async def test_a_sleep_of_nothing_moves_nothing(seconds):
    clock = FakeClock()
    await clock.sleep(seconds)
    assert clock.now() == 0


async def test_time_stands_still_while_anything_runs():
    clock, steps = FakeClock(), []

    async def work():
        for _ in range(200):
            await asyncio.sleep(0)
            steps.append(clock.now())

    await asyncio.gather(clock.sleep(10), work())
    assert set(steps) == {0}
    assert clock.now() == 10


async def test_time_stands_still_while_it_is_held():
    clock = FakeClock()
    with clock.hold():
        sleeping = asyncio.ensure_future(clock.sleep(10))
        await asyncio.get_running_loop().run_in_executor(None, sum, range(1000))
        assert (clock.now(), sleeping.done()) == (0, False)
    await sleeping
    assert clock.now() == 10


async def test_a_sleeper_that_was_cancelled_is_not_waited_for():
    clock = FakeClock()
    early = asyncio.ensure_future(clock.sleep(1))
    await asyncio.sleep(0)
    early.cancel()
    await clock.sleep(5)
    assert clock.now() == 5
    assert early.cancelled()


async def test_without_autojump_time_moves_by_hand():
    clock, woken = FakeClock(autojump=False), []

    async def sleeper(seconds):
        while True:
            await clock.sleep(seconds)
            woken.append(clock.now())

    task = asyncio.ensure_future(sleeper(4))
    await asyncio.sleep(0)
    assert clock.now() == 0
    await clock.advance(10)
    assert (clock.now(), woken) == (10, [4, 8])
    await clock.advance(2)
    assert woken == [4, 8, 12]
    task.cancel()


async def test_advancing_waits_for_what_holds_the_time():
    clock, seen = FakeClock(autojump=False), []

    async def work():
        with clock.hold():
            await asyncio.get_running_loop().run_in_executor(None, sum, range(1000))
            seen.append(clock.now())

    task = asyncio.ensure_future(work())
    await asyncio.sleep(0)
    await clock.advance(10)
    await task
    assert seen == [0]


async def test_a_clock_that_jumps_can_be_moved_by_hand_too():
    clock = FakeClock()
    sleeping = asyncio.ensure_future(clock.sleep(3))
    await clock.advance(10)
    assert (clock.now(), sleeping.done()) == (10, True)
