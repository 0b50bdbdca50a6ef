"""The contract of every EventSink, as a pytest class to subclass.

    class TestMySink(EventSinkContract):
        def open_sink(self, run, tmp_path):
            return MySink(run, {"path": str(tmp_path / f"{run.run_id}.log")})

        def kept(self, run, tmp_path):
            return [int(line) for line in (tmp_path / f"{run.run_id}.log").read_text().split()]

`kept` is optional: the numbers of the events that arrived, where that can be seen.
"""

from __future__ import annotations

import asyncio
import copy
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

import pytest
from msgspec.structs import replace

from prsm_core.domain.events import LIVE_TYPES
from prsm_core.interfaces.sink import RunInfo
from prsm_testing.bound import bounded
from prsm_testing.samples import later_events, sample_events

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from prsm_core.domain.events import Event
    from prsm_core.interfaces.sink import EventSink

CLOSE_SECONDS = 2.0  # what the engine gives a sink at the end of a run
BUSY_SECONDS = 3.0  # added to it: a machine that runs other things is not the sink's fault
BATCH = 100  # the most events the engine writes at once


@bounded
class EventSinkContract(ABC):
    """What every EventSink does; each test's docstring is the rule."""

    kinds: ClassVar[frozenset[str] | None] = None  # as in the sink's record: None means all
    deadline_s: ClassVar[float] = 10.0  # for the sink to do anything at all

    @property
    def bound_s(self) -> float:
        """How long a test may take in all: one that hangs fails, and says where it stands."""
        return 2 * self.deadline_s + BUSY_SECONDS

    @abstractmethod
    def open_sink(self, run: RunInfo, tmp_path: Path) -> EventSink:
        """Open the sink as its factory does; what it writes goes below `tmp_path`."""

    def kept(self, run: RunInfo, tmp_path: Path) -> Sequence[int] | None:
        """Return the seq of each event that arrived, in order; None if that cannot be seen."""
        return None

    def open_failing_sink(self, run: RunInfo, tmp_path: Path) -> EventSink | None:
        """Open a sink that cannot write (a file that is a folder …); None if none can fail."""
        return None

    async def test_it_takes_every_type_of_event(self, tmp_path: Path) -> None:
        """Every committed type of its `kinds`, with all fields and with none."""
        full = self._stream()
        bare = [replace(event, data={}, seq=len(full) + n) for n, event in enumerate(full, 1)]
        await self._write_all(tmp_path, *([event] for event in (*full, *bare)))
        self._arrived(_run("one"), tmp_path, [*full, *bare])

    async def test_it_takes_what_a_later_version_tells(self, tmp_path: Path) -> None:
        """An unknown type or field is no error."""
        await self._write_all(tmp_path, later_events(first_seq=1))

    async def test_batches_of_any_size_arrive_in_order(self, tmp_path: Path) -> None:
        """After `aclose` everything that was written is where it belongs."""
        events = self._many(3 * BATCH)
        parts = [(0, 1), (1, BATCH + 1), (BATCH + 1, 3 * BATCH)]
        await self._write_all(tmp_path, *(events[start:end] for start, end in parts))
        self._arrived(_run("one"), tmp_path, events)

    async def test_it_changes_no_event(self, tmp_path: Path) -> None:
        """Other sinks and frontends get the same objects."""
        events = self._stream()
        before = copy.deepcopy(events)
        await self._write_all(tmp_path, events)
        assert events == before

    async def test_sinks_of_two_runs_do_not_mix(self, tmp_path: Path) -> None:
        """Each run has a sink of its own, and they are open at the same time."""
        one, two = self.open_sink(_run("one"), tmp_path), self.open_sink(_run("two"), tmp_path)
        first, second = self._many(4), self._many(6)
        async with asyncio.timeout(self.deadline_s):
            await one.write(first[:2])
            await two.write(second[:3])
            await one.write(first[2:])
            await one.aclose()
            await two.write(second[3:])
            await two.aclose()
        self._arrived(_run("one"), tmp_path, first)
        self._arrived(_run("two"), tmp_path, second)

    async def test_it_closes_in_time_and_twice(self, tmp_path: Path) -> None:
        """Two seconds after the run's end the engine lets go; closing twice is fine."""
        sink = self.open_sink(_run("one"), tmp_path)
        await sink.write(self._many(BATCH))
        async with asyncio.timeout(CLOSE_SECONDS + BUSY_SECONDS):
            await sink.aclose()
        async with asyncio.timeout(CLOSE_SECONDS + BUSY_SECONDS):
            await sink.aclose()

    async def test_it_closes_without_an_event(self, tmp_path: Path) -> None:
        """A run may end before the first batch."""
        async with asyncio.timeout(self.deadline_s):
            await self.open_sink(_run("one"), tmp_path).aclose()

    async def test_a_write_that_is_cancelled_ends(self, tmp_path: Path) -> None:
        """So the engine lets go of a sink that is too slow."""
        sink = self.open_sink(_run("one"), tmp_path)
        async with asyncio.timeout(self.deadline_s), asyncio.TaskGroup() as group:
            writing = group.create_task(_write(sink, self._many(BATCH)))
            await asyncio.sleep(0)
            writing.cancel()
            await asyncio.wait({writing})
        async with asyncio.timeout(self.deadline_s):
            await sink.aclose()

    async def test_a_batch_that_could_not_be_written_is_told(self, tmp_path: Path) -> None:
        """`write` raises, or `aclose` if only then it comes out: what is lost is counted."""
        sink = self.open_failing_sink(_run("one"), tmp_path)
        if sink is None:
            pytest.skip("the sink cannot fail: open_failing_sink returns None")
        with pytest.raises(Exception):  # noqa: B017, PT011 - whichever it is, the engine counts it
            await _write_and_close(sink, self._many(3))

    async def _write_all(self, tmp_path: Path, *batches: Sequence[Event]) -> None:
        """Write batches to a sink, and close it."""
        sink = self.open_sink(_run("one"), tmp_path)
        async with asyncio.timeout(self.deadline_s):
            for batch in batches:
                await sink.write(batch)
            await sink.aclose()

    def _stream(self) -> list[Event]:
        """Return sample events as this sink gets them: committed, of its kinds, in order."""
        return [
            event
            for event in sample_events()
            if event.type not in LIVE_TYPES and (self.kinds is None or event.type in self.kinds)
        ]

    def _many(self, count: int) -> list[Event]:
        some = self._stream()
        return [replace(some[n % len(some)], seq=n + 1) for n in range(count)]

    def _arrived(self, run: RunInfo, tmp_path: Path, events: Sequence[Event]) -> None:
        kept = self.kept(run, tmp_path)
        if kept is not None:
            assert list(kept) == [event.seq for event in events]


async def _write(sink: EventSink, events: Sequence[Event]) -> None:
    await sink.write(events)


async def _write_and_close(sink: EventSink, events: Sequence[Event]) -> None:
    try:
        await sink.write(events)
    finally:
        await sink.aclose()


def _run(name: str) -> RunInfo:
    return RunInfo(run_id=name, session="session-1", task="count the lines", workspace="/work")
