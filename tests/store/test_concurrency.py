"""The writer thread, the lock beside the ledger, and those who follow the event log."""

from __future__ import annotations

import asyncio
import fcntl
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from prsm_testing.store_contract import Steps, notices, read_events

from prsm_core.errors import StoreError
from prsm_core.store import SqliteStore, StoreLimits, event_log
from tests.store.dumps import query, size

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from prsm_core.domain.events import Event


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the ledger's lock as another engine would."""
    with path.with_name(path.name + ".lock").open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


async def test_commits_wait_for_the_lock_and_go_in_one_group(
    path: Path, store: SqliteStore, team: Steps
):
    begun = await read_events(store, "s1")
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        with locked(path):
            commits = [group.create_task(store.append([team.event()])) for _ in range(20)]
            assert await read_events(store, "s1") == begun  # reading needs no lock
            assert not any(commit.done() for commit in commits)
    seqs = [e.seq for e in await read_events(store, "s1")]
    assert seqs == list(range(1, len(begun) + 21))


async def test_submitters_beyond_the_bound_wait_and_lose_nothing(
    path: Path,
):
    steps = Steps()
    store = await SqliteStore.open(path, limits=StoreLimits(max_pending=4, max_group=3))
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        with locked(path):
            tasks = [group.create_task(store.append([steps.event(text=str(n))])) for n in range(30)]
            await store.sessions()  # all are submitted now
            for task in tasks[10:20]:
                task.cancel()  # they wait in front of the queue: nothing of them happens
            closing = group.create_task(store.aclose())
        await closing
    async with await SqliteStore.open(path) as store:
        texts = [event.data["text"] for event in await read_events(store, "s1")]
        assert texts == [str(n) for n in range(30) if not 10 <= n < 20]


async def test_a_lock_that_never_comes_free_is_an_error_with_a_hint(path: Path):
    events = [Steps().event()]
    limits = StoreLimits(lock_timeout_s=0.02)
    async with await SqliteStore.open(path, limits=limits) as store:
        with locked(path):
            with pytest.raises(StoreError) as caught:
                await store.append(events)
            assert caught.value.code == "locked"
            assert caught.value.hint
        (event,) = await store.append(events)
    assert event.seq == 1


async def test_one_failing_step_does_not_fail_its_group(
    path: Path, store: SqliteStore, team: Steps
):
    steps = [team.step("w1", team.told()) for _ in range(5)]
    steps.insert(2, team.step("nobody", team.told()))
    with locked(path):
        group = asyncio.gather(*map(store.commit, steps), return_exceptions=True)
        await store.sessions()  # all are queued now
    async with asyncio.timeout(10):
        results = await group
    assert [isinstance(result, StoreError) for result in results] == [n == 2 for n in range(6)]
    assert len(await notices(store, "s1")) == 5


async def test_the_log_is_checkpointed_while_the_store_is_open(path: Path):
    steps = Steps()
    async with await SqliteStore.open(path, limits=StoreLimits(checkpoint_rows=50)) as store:
        before = size(path)
        for _ in range(20):
            await store.append([steps.event(text="x" * 500) for _ in range(20)])
        assert size(path) > before


async def test_the_last_one_to_close_leaves_one_file(path: Path):
    async with await SqliteStore.open(path) as store, await SqliteStore.open(path):
        await store.append([Steps().event()])
    assert {file.name for file in path.parent.iterdir()} == {"ledger.db", "ledger.db.lock"}


async def follow(store: SqliteStore, seen: asyncio.Queue[Event], after: int = 0) -> None:
    async for event in store.events("s1", after, follow=True):
        await seen.put(event)


async def test_a_follower_gets_pages_then_news_without_a_gap(store: SqliteStore, team: Steps):
    total = event_log.PAGE * 2 + 10
    begun = len(await read_events(store, "s1"))
    await store.append([team.event() for _ in range(total - begun)])
    seen: asyncio.Queue[Event] = asyncio.Queue(1)  # a slow reader holds nobody up
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        group.create_task(follow(store, seen, after=5))
        numbers = [(await seen.get()).seq for _ in range(500)]
        await store.append([team.event() for _ in range(25)])
        numbers += [(await seen.get()).seq for _ in range(total + 25 - 505)]
        assert numbers == list(range(6, total + 26))
        await store.aclose()


async def test_a_follower_sees_what_another_store_commits(path: Path, store: SqliteStore):
    steps = Steps()
    seen: asyncio.Queue[Event] = asyncio.Queue(10)
    reader = await SqliteStore.open(path, read_only=True)
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        group.create_task(follow(reader, seen))
        for number in (1, 2, 3):
            await store.append([steps.event()])
            assert (await seen.get()).seq == number
        await reader.aclose()


async def test_own_commits_wake_a_follower_without_polling(path: Path):
    steps = Steps()
    seen: asyncio.Queue[Event] = asyncio.Queue(10)
    store = await SqliteStore.open(path, limits=StoreLimits(poll_s=3600))
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        group.create_task(follow(store, seen))
        for number in range(1, 20):
            await store.append([steps.event()])
            assert (await seen.get()).seq == number
        await store.aclose()


async def test_a_closed_store_refuses_everything(path: Path):
    store = await SqliteStore.open(path)
    await store.aclose()
    await store.aclose()
    for use in (store.sessions(), store.append([]), anext(aiter(store.events("s1")))):
        with pytest.raises(StoreError) as caught:
            await use
        assert caught.value.code == "closed"


async def test_opening_can_be_cancelled(path: Path):
    async with await SqliteStore.open(path):
        pass
    with locked(path), pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await SqliteStore.open(path)
    async with asyncio.timeout(10), await SqliteStore.open(path) as store:
        assert await store.sessions() == []


async def test_two_engines_share_a_ledger(path: Path, store: SqliteStore, team: Steps):
    async with await SqliteStore.open(path) as other:
        begun = len(await read_events(store, "s1"))
        async with asyncio.TaskGroup() as group:
            for n in range(60):
                owner = (store, other)[n % 2]
                step = team.step("w1", team.told())
                group.create_task(owner.commit(step))
        seqs = [e.seq for e in await read_events(other, "s1")]
        assert seqs == list(range(1, begun + 61))
    assert query(path, "PRAGMA integrity_check") == [("ok",)]
