"""What a store remembers of the ledger is never older than the ledger."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from prsm_testing.store_contract import Steps, read_events

from prsm_core.domain.agents import AgentState
from prsm_core.domain.messages import MessageType
from prsm_core.errors import FencedError, InvalidTransitionError, MessageRoutingError, StoreError
from prsm_core.store import SqliteStore
from prsm_core.store.connection import Known

if TYPE_CHECKING:
    from pathlib import Path


async def test_an_end_that_another_store_committed_fences_this_one(
    path: Path, store: SqliteStore, team: Steps
):
    await store.commit(team.open_turn("w1"))  # w1 is known now
    async with await SqliteStore.open(path) as other:
        await other.commit(team.end("w1"))
    with pytest.raises(FencedError):
        await store.commit(team.open_turn("w1", 2))
    with pytest.raises(MessageRoutingError):
        await store.commit(team.step("master", *team.sent(team.message("master", "w1"))))
    with pytest.raises(FencedError):
        await store.commit(replace(team.spawn("w9", "w1"), agent_id=team.agent("master")))


async def test_an_older_incarnation_is_fenced_wherever_the_restart_was_committed(
    path: Path, store: SqliteStore, team: Steps
):
    await store.commit(team.end("w1"))
    async with await SqliteStore.open(path) as other:
        await other.commit(team.restart("w1", 2))
    with pytest.raises(FencedError):
        await store.commit(team.step("w1"))
    await store.commit(team.step("w1", incarnation=2))
    sent = team.message("master", "w1", MessageType.ANSWER, incarnation=2)
    await store.commit(team.step("master", *team.sent(sent)))


async def test_two_stores_take_turns_without_a_gap_in_numbers(
    path: Path, store: SqliteStore, team: Steps
):
    begun = len(await read_events(store, "s1"))
    async with await SqliteStore.open(path) as other:
        for number in range(1, 9):
            owner = (store, other)[number % 2]
            (event,) = (await owner.commit(team.open_turn("w1", number))).events
            assert event.seq == begun + number


async def test_what_a_refused_step_taught_is_forgotten(store: SqliteStore, team: Steps):
    before = await read_events(store, "s1")
    started = team.change(AgentState.PENDING, AgentState.STARTING)
    nobody = replace(team.message("w1", "master"), target="nobody")
    good = team.step("w1", team.turn("w1"), started)
    spoilt = replace(good, writes=(*good.writes, *team.sent(nobody)))
    for _ in range(2):  # the second time nothing is known beforehand
        with pytest.raises(MessageRoutingError):
            await store.commit(spoilt)
    await store.commit(good)
    seqs = [event.seq for event in await read_events(store, "s1")]
    assert seqs == list(range(1, len(before) + 3))
    with pytest.raises(InvalidTransitionError):
        await store.commit(team.step("w1", started))


async def test_a_refused_step_in_a_group_teaches_the_others_nothing(
    store: SqliteStore, team: Steps
):
    nobody = replace(team.message("w1", "master"), target="nobody")
    before = await read_events(store, "s1")
    spoilt = team.step("w1", team.turn("w1"), *team.sent(nobody))
    good = team.open_turn("w1")
    async with asyncio.timeout(10):
        results = await asyncio.gather(
            store.commit(spoilt), store.commit(good), return_exceptions=True
        )
    assert isinstance(results[0], MessageRoutingError)
    assert len(await read_events(store, "s1")) == len(before) + 1


async def test_an_agent_of_another_session_is_unknown_although_it_is_remembered(
    store: SqliteStore, team: Steps
):
    await store.commit(team.step("w1"))
    stranger = replace(team.step("w1"), session_id="s2")
    with pytest.raises(StoreError) as caught:
        await store.commit(stranger)
    assert caught.value.code == "unknown_agent"


def test_more_than_is_worth_remembering_is_forgotten():
    known = Known(most=2)
    known.refresh(1)
    known.last_seqs.update(a=1, b=2)
    known.refresh(1)
    assert known.last_seqs == {"a": 1, "b": 2}
    known.last_seqs["c"] = 3
    known.refresh(1)
    assert known.last_seqs == {}


def test_what_another_connection_may_have_changed_is_forgotten():
    known = Known()
    known.refresh(1)
    known.last_seqs["a"] = 1
    known.refresh(2)
    assert known.last_seqs == {}
