"""The doorbell: what a thread leaves comes to the event loop, all of it and in order."""

from __future__ import annotations

import asyncio

from prsm_core.store.writer import Doorbell

MANY = 100_000  # more rings than a pipe holds


async def test_what_a_thread_leaves_comes_in_order_however_often_it_rings():
    seen: list[int] = []
    ended = asyncio.Event()

    def receive(number: int) -> None:
        seen.append(number)
        if number == MANY:
            ended.set()

    bell = Doorbell(asyncio.get_running_loop(), receive)

    def ring() -> None:
        for number in range(MANY + 1):
            bell.leave(number)

    ring()  # nobody can answer yet: the pipe fills up
    async with asyncio.timeout(20):
        await ended.wait()
        ended.clear()
        await asyncio.to_thread(ring)
        await ended.wait()
    bell.close()
    assert seen == [*range(MANY + 1)] * 2


async def test_closing_receives_what_was_left():
    seen: list[str] = []
    bell = Doorbell(asyncio.get_running_loop(), seen.append)
    bell.leave("one")
    bell.leave("two")
    bell.close()
    assert seen == ["one", "two"]
