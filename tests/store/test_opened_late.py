"""A ledger that is made by its first step: the contract, and what holds before that step."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from prsm_testing.steps import Steps
from prsm_testing.store_contract import StoreContract

from prsm_core.errors import ConfigError, StoreError
from prsm_core.store import SqliteStore

if TYPE_CHECKING:
    from pathlib import Path

DEADLINE = 30.0


class TestOpenedLate(StoreContract):
    async def open_store(self, tmp_path: Path) -> SqliteStore:
        return await SqliteStore.open(tmp_path / "folder" / "ledger.db", late=True)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledgers" / "work" / "ledger.db"


async def all_of(events):
    async with asyncio.timeout(DEADLINE):
        return [event.type async for event in events]


async def test_reading_makes_no_file(path):
    async with await SqliteStore.open(path, late=True) as store:
        assert [*await store.sessions(), *await store.agents("s"), *await store.calls("a")] == []
        assert [*await store.inbox("s"), *await store.open_requests("s")] == []
        assert await all_of(store.events("s")) == []
    assert not path.parent.parent.exists()


async def test_the_first_step_makes_the_file_and_those_who_follow_see_it(path):
    steps = Steps()
    async with await SqliteStore.open(path, late=True) as store, asyncio.TaskGroup() as group:
        told = store.events(steps.session, follow=True)

        async def first():
            return await anext(aiter(told))

        follower = group.create_task(first())
        await store.commit(steps.run_started())
        assert path.exists()
        async with asyncio.timeout(DEADLINE):
            assert (await follower).type == "run_started"


async def test_who_follows_a_ledger_that_is_never_made_is_let_go(path):
    begun = asyncio.Event()

    async def follow(store):
        begun.set()
        return await all_of(store.events("s", follow=True))

    async with asyncio.TaskGroup() as group, await SqliteStore.open(path, late=True) as store:
        follower = group.create_task(follow(store))
        await begun.wait()
    assert follower.result() == []
    assert not path.exists()


async def test_steps_given_while_the_file_is_made_stay_in_order(path):
    steps = Steps()
    given = [steps.run_started(), steps.spawn("master"), *(steps.spawn(n, "master") for n in "abc")]
    async with await SqliteStore.open(path, late=True) as store:
        async with asyncio.TaskGroup() as group:
            for step in given:
                _ = group.create_task(store.commit(step))
        names = [row.descriptor.name for row in await store.agents(steps.session)]
    assert names == ["master", "a", "b", "c"]


async def test_a_store_that_was_closed_takes_nothing_and_makes_nothing(path):
    store = await SqliteStore.open(path, late=True)
    await store.aclose()
    await store.aclose()
    for refused in (
        store.commit(Steps().run_started()),
        store.sessions(),
        all_of(store.events("s")),
    ):
        with pytest.raises(StoreError, match="closed"):
            await refused
    assert not path.exists()


async def test_a_ledger_that_cannot_be_made_is_told_by_the_first_step(path):
    path.parent.parent.write_text("")
    async with await SqliteStore.open(path, late=True) as store:
        with pytest.raises(ConfigError, match="cannot be created"):
            await store.commit(Steps().run_started())


async def test_a_ledger_that_could_not_be_made_is_made_by_the_next_step(path):
    obstacle = path.parent.parent
    obstacle.write_text("")
    steps = Steps()
    async with await SqliteStore.open(path, late=True) as store:
        with pytest.raises(ConfigError):
            await store.commit(steps.run_started())
        assert await store.sessions() == []
        obstacle.unlink()
        await store.commit(steps.run_started())
        assert [each.session_id for each in await store.sessions()] == [steps.session]


async def test_what_lies_there_and_is_no_ledger_is_told_at_once(path):
    path.parent.mkdir(parents=True)
    path.write_text("a diary")
    with pytest.raises(StoreError):
        await SqliteStore.open(path, late=True)
    assert path.read_text() == "a diary"
