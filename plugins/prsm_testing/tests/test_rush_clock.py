"""Time that passes faster once a test says so."""

from __future__ import annotations

import asyncio

from prsm_testing.misbehaving_team import RushClock


async def test_a_sleep_is_cut_short_when_time_begins_to_rush():
    clock = RushClock()
    async with asyncio.timeout(5):
        sleeping = asyncio.ensure_future(clock.sleep(3600))
        await asyncio.sleep(0)
        clock.rush(1_000_000)
        await sleeping
    assert clock.now() >= 3600


async def test_time_never_goes_back():
    clock = RushClock()
    seen = [clock.now()]
    for speed in (1000, 1, 50, 0.5):
        clock.rush(speed, seconds=0.01, then=2)
        seen += [clock.now(), clock.now()]
    assert seen == sorted(seen)


async def test_a_rush_is_over_after_its_seconds():
    clock = RushClock()
    sleeping = asyncio.ensure_future(clock.sleep(60))
    await asyncio.sleep(0)
    clock.rush(1_000_000, seconds=100)
    await sleeping
    assert 60 <= clock.now() < 200
    clock.rush(1_000_000, seconds=1, then=1_000_000)
    await clock.sleep(1000)
    assert clock.now() > 1000
