"""Calls that come later, by every clock."""

from __future__ import annotations

import asyncio

import pytest
from prsm_testing.doubles import open_services
from prsm_testing.fake_clock import FakeClock
from prsm_testing.misbehaving_team import RushClock

from prsm_core.kit.clocks import SystemClock, deadline


def rushing() -> RushClock:
    clock = RushClock()
    clock.rush(10)
    return clock


@pytest.fixture(params=[SystemClock, FakeClock, rushing], ids=["system", "fake", "rush"])
def clock(request):
    return request.param()


async def test_calls_come_in_the_order_of_their_times(clock):
    called, done = [], asyncio.Event()

    def last() -> None:
        called.append("late")
        done.set()

    clock.call_later(0.02, last)
    clock.call_later(0.01, lambda: called.append("middle"))
    clock.call_later(0, lambda: called.append("early"))
    before = clock.now()
    async with asyncio.timeout(60):
        await done.wait()
    assert called == ["early", "middle", "late"]
    assert clock.now() - before >= 0.02


async def test_a_cancelled_call_never_comes(clock):
    called, done = [], asyncio.Event()
    cancelled = clock.call_later(0.01, lambda: called.append("cancelled"))
    clock.call_later(0.02, done.set)
    cancelled.cancel()
    cancelled.cancel()
    async with asyncio.timeout(60):
        await done.wait()
    assert called == []


async def test_a_deadline_ends_its_body_by_this_clock(clock, tmp_path):
    before = clock.now()
    async with open_services(tmp_path, clock=clock) as services:
        with pytest.raises(TimeoutError):
            async with deadline(services, 0.01):
                await asyncio.Event().wait()
        async with deadline(services, 3600):
            await clock.sleep(0.01)
    assert 0.02 <= clock.now() - before < 3600
