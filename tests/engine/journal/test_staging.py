"""Staged acts: written with their agent's next step or soon alone, in order, once, none lost."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import pytest
from prsm_testing.memory_store import MemoryStore

from prsm_core.domain.agents import AgentResult
from prsm_core.domain.writes import AgentSpawned, ResultClaimed
from prsm_core.engine.journal.unit import FLUSH_SECONDS
from prsm_core.errors import FencedError, MessageRoutingError, StoreError
from prsm_core.store import SqliteStore
from tests.engine.journal.desk import RUNNING, WAITING, Desk

if TYPE_CHECKING:
    from prsm_core.interfaces.store import Store


@pytest.fixture(params=["memory", "sqlite"])
async def desk(request, tmp_path):
    store: Store = (
        MemoryStore()
        if request.param == "memory"
        else await SqliteStore.open(tmp_path / "ledger.db")
    )
    try:
        desk = Desk(store)
        await desk.open()
        yield desk
        assert desk.errors == []
    finally:
        await store.aclose()


async def test_a_staged_act_rides_in_its_agents_next_step_and_keeps_its_time(desk):
    desk.stage("a", "1", desk.steps.change(RUNNING, WAITING))
    desk.journal.note("notice", desk.steps.agent("a"), level="info", text="2")
    await desk.clock.advance(0.01)
    desk.stage("a", "3", desk.steps.change(WAITING, RUNNING))
    await desk.journal.commit(desk.act("a", "4"))
    assert await desk.texts("a") == ["1", "2", "3", "4"]
    assert len(desk.store.commits) == 1
    begin = desk.clock.time() - 0.01
    times = [event.ts for event in desk.told]
    assert times == [begin, begin, begin, begin + 0.01, begin + 0.01, begin + 0.01]


async def test_nobody_carries_it_so_it_lands_alone_after_20_ms(desk):
    desk.stage("a", "1")
    await desk.clock.advance(0.9 * FLUSH_SECONDS)
    assert await desk.texts("a") == []
    await desk.clock.advance(0.1 * FLUSH_SECONDS)
    await desk.journal.flush()  # what is under way
    assert await desk.texts("a") == ["1"]


async def test_another_agents_step_does_not_carry_it(desk):
    desk.stage("a", "1")
    await desk.journal.commit(desk.act("b", "2"))
    assert (await desk.texts("a"), await desk.texts("b")) == ([], ["2"])
    await desk.journal.land(desk.steps.agent("a"))
    assert await desk.texts("a") == ["1"]


async def test_several_acts_land_as_one_step(desk):
    names = [desk.stage("a", text).step.step_id for text in "123"]
    await desk.journal.land(desk.steps.agent("a"))
    assert await desk.texts("a") == ["1", "2", "3"]
    assert [step.step_id for step in desk.store.commits] == names[-1:]
    await desk.journal.land(desk.steps.agent("a"))
    assert len(desk.store.commits) == 1


async def test_an_act_that_cannot_be_written_takes_nobody_with_it(desk, caplog):
    fit, bad = desk.stage("a", "1"), desk.stage("a", "2 unfit")
    ran = []
    with caplog.at_level(logging.WARNING, "prsm.engine"):
        await desk.journal.commit(desk.act("a", "3"), then=lambda: ran.append("then"))
    assert await desk.texts("a") == ["1", "3"]
    assert (fit.refused, ran) == (None, ["then"])
    assert isinstance(bad.refused, StoreError)
    assert "is left out" in caplog.text


async def test_what_needs_an_act_that_was_left_out_is_left_out_for_the_same_reason(desk):
    bad = desk.stage("a", "1 unfit")
    later = desk.stage("a", "2", needs=bad)
    with pytest.raises(StoreError) as caught:
        await desk.journal.commit(desk.act("a", "3"), needs=bad)
    assert caught.value is bad.refused is later.refused
    with pytest.raises(StoreError):
        await desk.journal.commit(desk.act("a", "4"), needs=later)
    assert await desk.texts("a") == []


async def test_a_step_that_is_refused_leaves_what_came_before_it(desk):
    desk.stage("a", "1")
    desk.journal.note("notice", desk.steps.agent("a"), level="info", text="2")
    with pytest.raises(MessageRoutingError):
        await desk.journal.commit(desk.act("a", "3 refused"))
    assert await desk.texts("a") == ["1", "2"]


async def test_a_turn_that_was_closed_before_takes_no_act_along(desk):
    turn = desk.steps.turn("a")
    await desk.journal.commit(desk.steps.step("a", turn))
    await desk.journal.commit(desk.steps.close_turn(turn, "a"))
    desk.stage("a", "1")
    desk.journal.note("notice", desk.steps.agent("a"), level="info", text="2")
    committed = await desk.journal.commit(desk.steps.close_turn(turn, "a"))
    assert committed.duplicate
    assert await desk.texts("a") == ["1", "2"]


async def test_what_comes_after_an_agents_end_is_left_out_and_its_turns_end_is_not(desk):
    turn = desk.steps.turn("a")
    await desk.journal.commit(desk.steps.step("a", turn))
    await desk.journal.commit(desk.steps.end("a", source=RUNNING))
    late = desk.journal.stage(desk.steps.open_call(turn, desk.steps.call("c1"), "a"))
    committed = await desk.journal.commit(desk.steps.close_turn(turn, "a"))
    assert not committed.duplicate
    assert isinstance(late.refused, FencedError)


async def test_an_act_of_an_ended_life_does_not_become_one_of_the_next(desk):
    await desk.journal.commit(desk.steps.end("a", source=RUNNING))
    claim = ResultClaimed(result=AgentResult(agent_id="a", success=True, summary="late"))
    late = desk.stage("a", "1", claim)
    await desk.journal.commit(desk.steps.restart("a", 2))
    assert isinstance(late.refused, FencedError)
    assert await desk.texts("a") == []


async def test_what_an_agent_does_while_its_step_is_taken_apart_comes_after_it(desk):
    desk.store.is_held = True
    desk.stage("a", "1 unfit")
    first = asyncio.ensure_future(desk.journal.commit(desk.act("a", "2")))
    await asyncio.sleep(0)
    second = asyncio.ensure_future(desk.journal.commit(desk.act("a", "3")))
    await asyncio.sleep(0)
    while not (first.done() and second.done()):
        await desk.store.let(1)
        await asyncio.sleep(0)
    assert await desk.texts("a") == ["2", "3"]


async def test_the_steps_of_an_agent_come_after_the_one_that_bears_it(desk):
    """Its birth is its parent's step, which may wait in line: a kill must not overtake it."""
    desk.store.is_held = True
    desk.stage("a", "1")
    before = asyncio.ensure_future(desk.journal.commit(desk.act("a", "2")))
    await asyncio.sleep(0)
    child = desk.steps.agent("c")
    born = AgentSpawned(agent=desk.steps.descriptor("c", "a"))
    birth = asyncio.ensure_future(desk.journal.commit(desk.act("a", "3", born), bears=[child]))
    await asyncio.sleep(0)
    end = asyncio.ensure_future(desk.journal.commit(desk.steps.end("c")))
    await asyncio.sleep(0)
    assert len(desk.store.waiting) == 1
    while not end.done():
        await desk.store.let(1)
        await asyncio.sleep(0)
    assert [(await task).duplicate for task in (before, birth, end)] == [False] * 3
    assert await desk.texts("a") == ["1", "2", "3"]


async def test_a_caller_that_is_cancelled_does_not_undo_what_came_before(desk):
    desk.store.is_held = True
    desk.stage("a", "1")
    commit = asyncio.ensure_future(desk.journal.commit(desk.act("a", "2")))
    await asyncio.sleep(0)
    commit.cancel()
    await asyncio.sleep(0)
    assert commit.cancelled()
    await desk.store.let(1)
    assert await desk.texts("a") == ["1", "2"]


async def test_the_run_ends_after_all_that_was_done_before(desk):
    desk.store.is_held = True
    desk.stage("a", "1")
    first = asyncio.ensure_future(desk.journal.commit(desk.act("a", "2")))
    await asyncio.sleep(0)
    second = asyncio.ensure_future(desk.journal.commit(desk.act("a", "3")))
    await asyncio.sleep(0)
    desk.journal.end_run()
    with pytest.raises(FencedError):
        desk.stage("a", "4")
    flushed = asyncio.ensure_future(desk.journal.flush())
    for _ in range(2):
        await asyncio.sleep(0)
        assert not flushed.done()
        await desk.store.let(1)
    await flushed
    assert first.done()
    assert second.done()
    assert await desk.texts("a") == ["1", "2", "3"]


def _note(desk, text):
    desk.journal.note("notice", desk.steps.agent("a"), level="info", text=text)


async def _a_fact(desk):
    _note(desk, "1")
    await desk.journal.flush()


async def _facts_written_one_by_one(desk):
    _note(desk, "1")
    _note(desk, "2 unfit")
    await desk.journal.flush()


async def _an_act(desk):
    desk.stage("a", "1")
    await desk.journal.land(desk.steps.agent("a"))


async def _a_step(desk):
    await desk.journal.commit(desk.act("a", "1"))


@pytest.mark.parametrize("under_way", [_a_fact, _facts_written_one_by_one, _an_act, _a_step])
async def test_what_is_being_written_is_written_once_a_flush_returns(desk, under_way):
    """Whoever asks then, of the ledger or by what was told, finds it."""
    desk.store.is_held = True
    writing = asyncio.ensure_future(under_way(desk))
    await asyncio.sleep(0)
    assert len(desk.store.waiting) == 1
    flushed = asyncio.ensure_future(desk.journal.flush())
    await asyncio.sleep(0)
    while desk.store.waiting:
        assert not flushed.done()
        await desk.store.let(1)
        await asyncio.sleep(0)
    await flushed
    assert await desk.texts("a") == ["1"]
    assert [event.data["text"] for event in desk.told] == ["1"]
    await writing


async def test_a_flush_does_not_wait_for_what_began_after_it(desk):
    desk.store.is_held = True
    _note(desk, "1")
    flushed = asyncio.ensure_future(desk.journal.flush())
    await asyncio.sleep(0)
    later = asyncio.ensure_future(desk.journal.commit(desk.act("b", "2")))
    await asyncio.sleep(0)
    await desk.store.let(1)
    await flushed
    assert not later.done()
    await desk.store.let(1)
    await later


async def test_a_flush_goes_on_where_the_write_that_it_waits_for_breaks_the_ledger(desk):
    desk.store.is_held = True
    writing = asyncio.ensure_future(desk.journal.commit(desk.act("a", "1 torn")))
    await asyncio.sleep(0)
    flushed = asyncio.ensure_future(desk.journal.flush())
    await asyncio.sleep(0)
    assert not flushed.done()
    await desk.store.let(1)
    with pytest.raises(StoreError, match="the disk is full"):
        await writing
    await flushed
    assert desk.journal.is_suspended
