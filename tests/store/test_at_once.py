"""Who writes: the event loop's own thread, or the one that may wait for others."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from contextlib import asynccontextmanager, closing
from typing import TYPE_CHECKING, Any

import pytest
from prsm_testing.store_contract import Steps, notices

from prsm_core.errors import StoreError
from prsm_core.store import SqliteStore, StoreLimits
from prsm_core.store.connection import LedgerLock, open_writer
from prsm_core.store.writer import QUICK_ONES, Writer
from tests.store.dumps import query

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from prsm_core.store.connection import WritingConnection

HERE, THREAD = "MainThread", "prsm-ledger-write"
ROW = "INSERT INTO steps (session_id, kind, first_seq, event_count) VALUES ('s', ?, 1, 0)"
EVER = StoreLimits(at_once_s=3600)


class Disk:
    """A clock that goes on by `seconds` whenever it is looked at: before a group, and after."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._now = 0.0

    def monotonic(self) -> float:
        self._now += self.seconds
        return self._now


class Pages:
    """Writes rows through a Writer, and knows which thread each was written by."""

    def __init__(self, writer: Writer) -> None:
        self.writers: list[str] = []
        self._writer = writer

    def write(self, rows: int = 1, *, is_short: bool = True) -> asyncio.Future[str]:
        """Write rows that tell the thread that has written them."""
        return self._writer.submit(self._write, rows, is_short=is_short)

    async def write_alone(self, times: int) -> None:
        """Write one row after the other."""
        for _ in range(times):
            await self.write()

    def _write(self, conn: WritingConnection, rows: int) -> str:
        name = threading.current_thread().name
        for _ in range(rows):
            conn.execute(ROW, (name,))
        self.writers.append(name)
        return name


@asynccontextmanager
async def open_pages(
    path: Path, limits: StoreLimits = EVER, disk: Disk | None = None
) -> AsyncIterator[Pages]:
    clock = {} if disk is None else {"monotonic": disk.monotonic}
    writer = Writer(path, limits, lambda: None, **clock)
    await writer.start()
    try:
        yield Pages(writer)
    finally:
        await writer.aclose()


async def test_what_is_alone_is_written_at_once_and_several_by_the_thread(path: Path):
    async with open_pages(path) as pages:
        assert await pages.write() == HERE
        assert await asyncio.gather(*(pages.write() for _ in range(5))) == [THREAD] * 5
        assert await pages.write() == HERE
    kinds = query(path, "SELECT kind FROM steps ORDER BY position")
    assert [kind for (kind,) in kinds] == [HERE, *[THREAD] * 5, HERE]


async def test_what_is_alone_while_the_thread_writes_comes_after_it(path: Path):
    async with open_pages(path) as pages:
        first = [pages.write() for _ in range(2)]
        await asyncio.sleep(0)  # the thread has them, and nothing of it is settled
        assert await pages.write() == THREAD
        assert all(one.done() for one in first)


async def test_a_slow_disk_is_waited_for_once_and_again_when_it_has_been_quick(path: Path):
    disk = Disk()
    async with open_pages(path, StoreLimits(), disk) as pages:
        disk.seconds = 0.1
        await pages.write_alone(4)
        disk.seconds = 0.0
        await pages.write_alone(QUICK_ONES + 2)
    assert pages.writers == [HERE, *[THREAD] * (3 + QUICK_ONES), HERE, HERE]


async def test_quick_ones_count_only_in_a_row(path: Path):
    disk = Disk()
    async with open_pages(path, StoreLimits(), disk) as pages:
        for seconds, times in ((0.1, 1), (0.0, QUICK_ONES - 1), (0.1, 1), (0.0, QUICK_ONES)):
            disk.seconds = seconds
            await pages.write_alone(times)
    assert pages.writers == [HERE, *[THREAD] * (2 * QUICK_ONES)]


async def test_what_many_take_together_says_nothing_of_one(path: Path):
    disk = Disk()
    async with open_pages(path, StoreLimits(), disk) as pages:
        disk.seconds = 0.1
        await asyncio.gather(*(pages.write() for _ in range(5)))
        disk.seconds = 0.0
        assert await pages.write() == HERE


async def test_a_log_that_is_full_is_folded_by_the_thread(path: Path):
    async with open_pages(path, StoreLimits(at_once_s=3600, checkpoint_rows=20)) as pages:
        assert await pages.write(30) == HERE
        assert await pages.write() == THREAD
        assert await pages.write() == HERE


async def test_what_is_not_short_is_never_written_at_once(path: Path):
    async with open_pages(path) as pages:
        assert await pages.write(is_short=False) == THREAD


async def test_a_whole_session_is_not_written_at_once(path: Path, tmp_path: Path):
    seen = set()

    class Seen(dict[str, Any]):
        def __getitem__(self, table: str) -> Any:
            seen.add(threading.current_thread().name)
            return super().__getitem__(table)

    team = Steps()
    async with await SqliteStore.open(path) as store:
        await store.commit(team.run_started())
        await store.commit(team.spawn("w1"))
        copy = Seen(await store.copy("s1"))
    async with await SqliteStore.open(tmp_path / "other.db", limits=EVER) as other:
        assert await other.put_copy(copy, str) == "s1"
    assert seen == {THREAD}


async def test_who_writes_without_the_lock_holds_up_the_thread_alone(path: Path):
    async with asyncio.timeout(20), open_pages(path) as pages:
        await pages.write()
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            written = pages.write()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert not written.done()
            other.execute("ROLLBACK")
        assert await written == THREAD


def test_a_transaction_that_does_not_wait_has_sqlite_wait_for_nobody(path: Path):
    with closing(LedgerLock(path, timeout_s=10)) as lock:
        conn = open_writer(path, lock)
        with closing(conn), closing(sqlite3.connect(path, isolation_level=None)) as other:
            (waits,) = conn.execute("PRAGMA busy_timeout").fetchone()
            assert waits
            assert conn.begin(wait=False)
            conn.take_back()
            assert conn.execute("PRAGMA busy_timeout").fetchone() == (0,)
            other.execute("BEGIN IMMEDIATE")
            assert not conn.begin(wait=False)
            other.execute("ROLLBACK")
            assert conn.begin()
            assert conn.execute("PRAGMA busy_timeout").fetchone() == (waits,)


async def test_a_refused_step_is_refused_at_once_and_nothing_of_it_stays(path: Path):
    team = Steps()
    async with await SqliteStore.open(path, limits=EVER) as store:
        await store.commit(team.spawn("w1"))
        with pytest.raises(StoreError):
            await store.commit(team.step("nobody", team.told()))
        await store.commit(team.step("w1", team.told()))
        assert len(await notices(store, "s1")) == 1


def test_an_interrupt_in_the_midst_of_a_step_ends_it_and_the_store_goes_on(path: Path):
    def interrupted(conn: WritingConnection, _what: Any) -> None:
        conn.execute(ROW, ("half",))
        raise KeyboardInterrupt

    async def opened() -> Writer:
        writer = Writer(path, EVER, lambda: None)
        await writer.start()
        return writer

    with asyncio.Runner() as runner:
        writer = runner.run(opened())
        submitted: list[asyncio.Future[None]] = []

        async def submit() -> None:
            submitted.append(writer.submit(interrupted, None))
            await asyncio.wait(submitted)

        with pytest.raises(KeyboardInterrupt):
            runner.run(submit())
        with pytest.raises(StoreError, match="interrupted"):
            submitted[0].result()
        runner.run(Pages(writer).write_alone(1))
        runner.run(writer.aclose())
    assert query(path, "SELECT kind FROM steps") == [(HERE,)]
