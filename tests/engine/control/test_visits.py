"""Visits: an owner learns when nobody has asked it anything for a while."""

from __future__ import annotations

import asyncio

from prsm_testing.app_double import settle
from prsm_testing.fake_clock import FakeClock

from prsm_core.engine.control.operations import Operation
from prsm_core.engine.control.visits import Visits
from tests.engine.control_peers import connected, keyed, serving

IDLE_SECONDS = 60.0


async def test_the_time_counts_from_the_end_of_the_last_request():
    clock, visits = FakeClock(autojump=False), Visits()
    over = asyncio.ensure_future(visits.none_for(clock, IDLE_SECONDS))
    await clock.advance(IDLE_SECONDS - 1)
    with visits.visit():
        await clock.advance(10 * IDLE_SECONDS)
        assert not over.done()
    await clock.advance(IDLE_SECONDS - 1)
    assert not over.done()
    await clock.advance(1)
    await over


async def test_a_request_that_is_worked_on_and_a_reader_that_follows_are_there(tmp_path):
    visits, begun, go_on = Visits(), asyncio.Event(), asyncio.Event()

    async def work(app, args):
        begun.set()
        await go_on.wait()

    async def numbers():
        yield 1
        await asyncio.get_running_loop().create_future()

    async def follow(app, args):
        return numbers()

    operations = {"work": Operation(work), "follow": Operation(follow)}
    async with serving(tmp_path, visits=visits, **operations) as path:
        async with connected(path) as peer, connected(path) as reader:
            peer.write(keyed(path, "work"))
            await begun.wait()
            over = asyncio.ensure_future(visits.none_for(FakeClock(), IDLE_SECONDS))
            reader.write(keyed(path, "follow"))
            await reader.read()
            go_on.set()
            await peer.read()
            await settle()
            assert not over.done()
        await over
