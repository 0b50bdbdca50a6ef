"""Sinks: each has a bounded queue and a task of its own, and can never slow the engine."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from prsm_core.engine.clocks import first_of
from prsm_core.plugins import load_object

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from prsm_core.domain.events import Event
    from prsm_core.engine.background import Background
    from prsm_core.interfaces.clock import Clock
    from prsm_core.interfaces.sink import EventSink, EventSinkSpec, RunInfo

    OnDrop = Callable[[str, int], None]

CLOSE_SECONDS = 2.0  # how long a sink may take to write what is left at the run's end
BATCH = 100


class _SinkRunner:
    def __init__(self, spec: EventSinkSpec, sink: EventSink, on_drop: OnDrop) -> None:
        self._spec = spec
        self._sink = sink
        self._on_drop = on_drop
        self._queue: deque[Event] = deque()
        self._wake = asyncio.Event()
        self._closing = False
        self._dropped = 0  # events, told once per written batch

    def offer(self, events: Sequence[Event]) -> None:
        kinds = self._spec.kinds
        for event in events:
            if event.type == "sink_dropped" or (kinds is not None and event.type not in kinds):
                continue
            if len(self._queue) >= self._spec.maxsize:
                self._dropped += 1
                if self._spec.overflow == "drop_newest":
                    continue
                self._queue.popleft()
            self._queue.append(event)
        self._wake.set()

    def close(self) -> None:
        self._closing = True
        self._wake.set()

    async def run(self) -> None:
        try:
            while self._queue or not self._closing:
                await self._wake.wait()
                self._wake.clear()
                while self._queue:
                    batch = [self._queue.popleft() for _ in range(min(BATCH, len(self._queue)))]
                    await self._write(batch)
        finally:
            await self._sink.aclose()

    async def _write(self, batch: list[Event]) -> None:
        try:
            await self._sink.write(batch)
        except Exception:  # noqa: BLE001 - a raising sink loses its batch, which is counted
            self._dropped += len(batch)
        if self._dropped:
            count, self._dropped = self._dropped, 0
            self._on_drop(self._spec.name, count)


class SinkGroup:
    """Owns the sinks of one run."""

    def __init__(self, background: Background, clock: Clock, on_drop: OnDrop) -> None:
        self._background = background
        self._clock = clock
        self._on_drop = on_drop
        self._runners: list[tuple[_SinkRunner, asyncio.Task[None]]] = []

    def open(
        self,
        specs: Sequence[EventSinkSpec],
        run: RunInfo,
        settings: Mapping[str, Mapping[str, Any]],
        on_broken: Callable[[str, Exception], None],
    ) -> None:
        """Open every sink; one that cannot be opened is reported and left out."""
        for spec in specs:
            try:
                sink = load_object(spec.factory, plugin=spec.name)(run, settings.get(spec.name, {}))
            except Exception as error:  # noqa: BLE001 - a plugin's fault, told by name
                on_broken(spec.name, error)
                continue
            runner = _SinkRunner(spec, sink, self._on_drop)
            task = self._background.start(runner.run(), name=f"sink {spec.name}")
            self._runners.append((runner, task))

    def publish(self, events: tuple[Event, ...]) -> None:
        """Offer committed events to every sink."""
        for runner, _ in self._runners:
            runner.offer(events)

    async def aclose(self) -> None:
        """Let each sink write what it has, for a bounded time."""
        for runner, _ in self._runners:
            runner.close()
        tasks = {task for _, task in self._runners}
        self._runners.clear()
        if tasks:
            await first_of(self._clock, CLOSE_SECONDS, lambda: asyncio.wait(tasks))
        for task in tasks:
            task.cancel()
