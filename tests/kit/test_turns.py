"""A session that runs turns: who reads, who tells, and how a turn ends."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest
from prsm_testing import RushClock, open_services, reason, run_turn, streaming, until

from prsm_core import ErrorKind, OrchestrationError, PrsmError, StopReason, TextDelta, TurnEnded
from prsm_core.kit import Turn, TurnSession
from prsm_core.kit.turns import MAX_EVENTS

END = TurnEnded(StopReason.END_TURN)


class Spoken(TurnSession[Turn]):
    """A vendor that says what the test lets it say, and ends its turn when `obeys`."""

    def __init__(self, services, *, fails=None, obeys=True):
        super().__init__("agent", services)
        self.fails = fails
        self.obeys = obeys
        self.asked = 0
        self.let_go = []
        self.given = []
        self.may_send = asyncio.Event()
        self.may_send.set()

    def new_turn(self):
        return Turn()

    async def begin(self, turn, context):
        await self.may_send.wait()
        if self.fails is not None:
            raise self.fails
        turn.sent = True

    async def ask_to_end(self, turn):
        self.asked += 1
        if self.obeys:
            await self.aborted(turn)

    def passed(self, event):
        self.given.append(event)

    def closed(self, turn):
        self.let_go.append(turn)


@asynccontextmanager
async def speaking(folder, **how):
    clock = RushClock()
    async with open_services(folder, clock=clock) as services:
        yield Spoken(services, **how), clock


async def begun(session):
    await until(lambda: session.turn is not None and session.turn.sent)
    return session.turn


async def test_the_reader_is_given_what_is_put_up_to_the_end(tmp_path):
    async with speaking(tmp_path) as (session, _), asyncio.TaskGroup() as group:
        read = group.create_task(run_turn(session, "Hello."))
        turn = await begun(session)
        await turn.put([TextDelta("a"), TextDelta("b"), END, TextDelta("late"), END])
        assert await read == [TextDelta("a"), TextDelta("b"), END] == session.given
        assert session.let_go == [turn]
        assert (session.turn, session.asked) == (None, 0)


async def test_a_second_turn_at_the_same_time_is_refused(tmp_path):
    async with speaking(tmp_path) as (session, _), asyncio.TaskGroup() as group:
        read = group.create_task(run_turn(session, "Hello."))
        turn = await begun(session)
        with pytest.raises(OrchestrationError, match="agent: a turn is running already"):
            await run_turn(session, "And I.")
        await turn.put([END])
        assert reason(await read) is StopReason.END_TURN


async def test_what_keeps_a_turn_from_beginning_ends_it(tmp_path):
    async with speaking(tmp_path, fails=PrsmError("no room")) as (session, _):
        (ended,) = await run_turn(session, "Hello.")
    assert (ended.stop_reason, ended.error.message) == (StopReason.ERROR, "no room")
    assert ended.error.kind is ErrorKind.UNKNOWN


async def test_a_surprise_ends_the_turn_and_reaches_the_engine(tmp_path):
    ends = []

    async def surprised():
        async with speaking(tmp_path, fails=LookupError("odd")) as (session, _):
            ends.extend(await run_turn(session, "Hello."))

    with pytest.raises(ExceptionGroup) as caught:
        await surprised()
    assert caught.group_contains(LookupError, match="odd")
    assert [end.error.message for end in ends] == ["LookupError: odd"]


async def test_an_interrupt_asks_the_vendor_once(tmp_path):
    async with speaking(tmp_path) as (session, _), asyncio.TaskGroup() as group:
        read = group.create_task(run_turn(session, "Hello."))
        await begun(session)
        await asyncio.gather(session.interrupt(), session.interrupt())
        assert reason(await read) is StopReason.ABORTED
        await session.interrupt()
        assert session.asked == 1
        assert session.reusable


async def test_a_turn_that_was_not_sent_is_ended_without_the_vendor(tmp_path):
    async with speaking(tmp_path) as (session, _), asyncio.TaskGroup() as group:
        session.may_send.clear()
        read = group.create_task(run_turn(session, "Hello."))
        await until(lambda: session.turn is not None)
        await session.interrupt()
        assert reason(await read) is StopReason.ABORTED
        assert session.asked == 0


async def test_a_vendor_that_does_not_end_its_turn_is_given_up_after_two_seconds(tmp_path):
    async with speaking(tmp_path, obeys=False) as (session, clock), asyncio.TaskGroup() as group:
        read = group.create_task(run_turn(session, "Hello."))
        await begun(session)
        clock.rush(5)
        before = clock.now()
        await session.interrupt()
        assert 2.0 <= clock.now() - before < 5.0
        assert reason(await read) is StopReason.ABORTED
        assert not session.reusable


async def test_who_leaves_early_stops_the_vendor(tmp_path):
    async with speaking(tmp_path) as (session, _):
        async with streaming(session, "Hello.") as events:
            first = asyncio.ensure_future(anext(events))
            turn = await begun(session)
            await turn.put([TextDelta("a")])
            assert await first == TextDelta("a")
        assert (session.asked, session.turn) == (1, None)
        assert session.let_go == [turn]


@pytest.mark.parametrize("obeys", [True, False])
async def test_who_leaves_a_full_queue_keeps_nobody_waiting(tmp_path, obeys):
    """Neither who tells of more, nor who ends the turn."""
    async with speaking(tmp_path, obeys=obeys) as (session, clock), asyncio.TaskGroup() as group:
        async with streaming(session, "Hello.") as events:
            first = group.create_task(anext(events))
            turn = await begun(session)
            many = group.create_task(turn.put([TextDelta("x")] * (2 * MAX_EVENTS)))
            assert await first == TextDelta("x")
            clock.rush(5)
        await many
        assert turn.over.is_set()


async def test_the_teller_waits_for_a_reader_that_is_behind(tmp_path):
    turn = Turn()
    told = asyncio.ensure_future(turn.put([TextDelta("x")] * (MAX_EVENTS + 1)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not told.done()
    await turn.next()
    await told


async def test_a_cancelled_reader_leaves_a_session_that_can_go_on(tmp_path):
    async with speaking(tmp_path, obeys=False) as (session, _), asyncio.TaskGroup() as group:
        read = group.create_task(run_turn(session, "Hello."))
        turn = await begun(session)
        read.cancel()
        await until(lambda: turn.stopping)
        read.cancel()  # also while the vendor is asked to end
        await asyncio.wait([read])
        assert read.cancelled()
        assert session.turn is None
        assert session.let_go == [turn]
