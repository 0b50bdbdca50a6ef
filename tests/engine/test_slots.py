"""Slots: never more in use than there are, first come first served, nothing lost."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prsm_core.engine.agents.life import SlotLease, Slots

ACT = st.sampled_from(["acquire", "release", "cancel", "step"])


async def ticks(count=3):
    for _ in range(count):
        await asyncio.sleep(0)


@given(limit=st.integers(1, 3), acts=st.lists(st.tuples(ACT, st.integers(0, 7)), max_size=60))
def test_slots_are_bounded_fair_and_never_lost(limit, acts):
    asyncio.run(_drive(limit, acts))


async def _drive(limit, acts):
    slots = Slots(limit)
    order, holders, waiting = [], [], []

    async def take(number):
        await slots.acquire()
        order.append(number)
        holders.append(number)

    tasks: dict[int, asyncio.Future[None]] = {}
    for kind, which in acts:
        if kind == "acquire":
            number = len(tasks)
            tasks[number] = asyncio.ensure_future(take(number))
            waiting.append(number)
            await asyncio.sleep(0)  # so that the queue is in this order
        elif kind == "release" and holders:
            holders.pop(which % len(holders))
            slots.release()
        elif kind == "cancel" and waiting:
            tasks[waiting[which % len(waiting)]].cancel()
        elif kind == "step":
            await ticks()
        assert 0 <= slots.in_use <= limit
        assert len(holders) <= limit
    await ticks(10)
    assert slots.in_use == len(holders)
    while any(not task.done() for task in tasks.values()):
        assert len(holders) == limit  # somebody waits, so every slot is taken
        holders.pop()
        slots.release()
        await ticks(10)
    assert order == sorted(order)
    for _ in tuple(holders):
        slots.release()
    assert slots.in_use == 0


async def test_a_waiter_that_is_cancelled_as_its_slot_comes_passes_it_on():
    slots = Slots(1)
    await slots.acquire()
    first, second = (asyncio.ensure_future(slots.acquire()) for _ in "12")
    await ticks()
    slots.release()
    first.cancel()
    await ticks()
    assert first.cancelled()
    assert second.done()
    assert slots.in_use == 1


async def test_a_waiter_that_was_cancelled_before_a_slot_came_is_skipped():
    slots = Slots(1)
    await slots.acquire()
    first, second = (asyncio.ensure_future(slots.acquire()) for _ in "12")
    await ticks()
    first.cancel()
    slots.release()
    await ticks()
    with suppress(asyncio.CancelledError):
        await first
    assert second.done()
    assert slots.in_use == 1


async def test_a_lease_holds_one_slot_however_often_it_is_taken():
    slots = Slots(1)
    lease = SlotLease(slots)
    await asyncio.gather(lease.acquire(), lease.acquire(), lease.acquire())
    assert (slots.in_use, lease.held) == (1, True)
    lease.release()
    lease.release()
    assert (slots.in_use, lease.held) == (0, False)


@pytest.mark.requirement("E8")
async def test_no_more_agents_than_allowed_are_active_at_one_time(opened):
    active, most = set(), []
    three = asyncio.Barrier(3)

    async def busy(agent):
        active.add(agent.name)
        most.append(len(active))
        await three.wait()
        active.discard(agent.name)
        await agent.complete()

    async def master(agent):
        children = [{"prompt": "x", "name": f"c{n}"} for n in range(12)]
        await agent.call("spawn_children_parallel", children=children)
        await agent.collect(12)
        await agent.complete()

    names = {f"c{n}": busy for n in range(12)}
    async with opened(engine={"max_concurrent_agents": 3}) as team:
        result = await team.run("do it", master=master, **names)
        assert result.status == "completed"
    assert max(most) == 3


async def test_agents_get_their_first_slot_in_the_order_they_were_spawned(opened):
    began = []

    async def note(agent):
        began.append(agent.name)
        await agent.complete()

    async def master(agent):
        children = [{"prompt": "x", "name": f"c{n}"} for n in range(6)]
        await agent.call("spawn_children_parallel", children=children)
        await agent.collect(6)
        await agent.complete()

    async with opened(engine={"max_concurrent_agents": 1}) as team:
        names = {f"c{n}": note for n in range(6)}
        await team.run("do it", master=master, **names)
    assert began == [f"c{n}" for n in range(6)]


async def test_a_waiting_agent_has_its_slot_again_before_it_gets_the_answer(opened):
    async def master(agent):
        await agent.call("spawn_child", prompt="x", name="a", wait=True)
        await agent.complete()

    async with opened(engine={"max_concurrent_agents": 1}) as team:
        await team.run("do it", master=master)
    events = team.ledger.events()

    def place(kind, agent, **fields):
        return next(
            event["seq"]
            for event in events
            if (event["type"], event["agent"]) == (kind, agent)
            and all(event[key] == value for key, value in fields.items())
        )

    order = [
        place("agent_spawned", "a"),
        place("agent_state_changed", "master", to="waiting_for_child"),
        place("agent_state_changed", "a", to="starting"),
        place("agent_state_changed", "a", to="completed"),
        place("turn_finished", "a"),
        place("agent_state_changed", "master", reason="answered"),
        place("tool_call_finished", "master", status="completed"),
    ]
    assert order == sorted(order)
