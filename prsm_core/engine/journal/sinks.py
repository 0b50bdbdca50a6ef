"""Feed plugins' sinks, each by a bounded queue and a task of its own, without slowing the engine.

Lost events are counted and reported, whether the queue was full, the sink failed, or a write never
ended.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING

from msgspec import Struct, field

from prsm_core.errors import PluginError
from prsm_core.interfaces.sink import RunInfo
from prsm_core.interfaces.tool import PeerNow
from prsm_core.kit.clocks import first_of
from prsm_core.plugins.guard import Guest, TooLateError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from prsm_core.domain.agents import AgentDescriptor
    from prsm_core.domain.events import Event
    from prsm_core.engine.journal.unit import Journal
    from prsm_core.interfaces.clock import Clock
    from prsm_core.interfaces.sink import EventSink, EventSinkSpec
    from prsm_core.kit.background import Background

    OnDrop = Callable[[str, int], None]  # a sink's name, and how many events it did not get
    OnFault = Callable[[str], None]  # what went wrong, once a sink

_log = logging.getLogger("prsm.engine")

WRITE_SECONDS = 30.0  # how long a sink may take to write a batch
CLOSE_SECONDS = 2.0  # how long a sink may take to write what is left at the run's end
BATCH = 100


class _SinkRunner(Struct, eq=False):
    _spec: EventSinkSpec
    _sink: EventSink
    _guest: Guest
    _clock: Clock
    _on_drop: OnDrop
    _on_fault: OnFault
    _queue: deque[Event] = field(default_factory=deque)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    # It has written all that it was given, or never will.
    idle: asyncio.Event = field(default_factory=asyncio.Event)
    _writing: int = 0  # events
    _closing: bool = False
    _is_given_up: bool = False
    _is_told: bool = False  # that it fails
    _dropped: int = 0  # events, told once per written batch
    task: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        self.idle.set()

    def offer(self, events: Sequence[Event]) -> None:
        kinds = self._spec.kinds
        for event in events:
            if event.type == "sink_dropped" or (kinds is not None and event.type not in kinds):
                continue
            if self._is_given_up:
                self._dropped += 1
                continue
            if len(self._queue) >= self._spec.maxsize:
                self._dropped += 1
                if self._spec.overflow == "drop_newest":
                    continue
                self._queue.popleft()
            self._queue.append(event)
        if self._queue:
            self.idle.clear()
        self._wake.set()

    def close(self) -> None:
        self._closing = True
        self._wake.set()

    def give_up(self, why: str) -> None:
        """Let it write nothing more; what it has not written is lost."""
        if not self._is_given_up:
            self._is_given_up = True
            self._dropped += self._writing + len(self._queue)
            self._writing = 0
            self._queue.clear()
            self.idle.set()
            self._fault(f"{self._guest} {why}: it gets no more events of this run")
            if self.task is not None:
                self.task.cancel()
        self.tell_dropped()

    def tell_dropped(self) -> None:
        if self._dropped:
            count, self._dropped = self._dropped, 0
            self._on_drop(self._spec.name, count)

    async def run(self) -> None:
        try:
            while self._queue or not (self._closing or self._is_given_up):
                await self._wake.wait()
                self._wake.clear()
                while self._queue:
                    batch = [self._queue.popleft() for _ in range(min(BATCH, len(self._queue)))]
                    await self._write(batch)
                self.idle.set()
        finally:
            await self._close()

    async def _write(self, batch: list[Event]) -> None:
        self._writing = len(batch)
        why = f"did not end a write within {WRITE_SECONDS:g} s"
        timer = self._clock.call_later(WRITE_SECONDS, lambda: self.give_up(why))
        try:
            with self._guest.calling("write"):
                await self._sink.write(batch)
        except TooLateError as error:
            self.give_up(f"failed in write ({error.why})")
        except PluginError as error:  # a raising sink loses its batch, which is counted
            self._dropped += self._writing
            self._fault(error.message)
        finally:
            timer.cancel()
        self._writing = 0
        if not self._is_given_up:
            self.tell_dropped()

    async def _close(self) -> None:
        try:
            with self._guest.calling("aclose"):
                await self._sink.aclose()
        except PluginError as error:
            self._fault(error.message)

    def _fault(self, text: str) -> None:
        if not self._is_told:
            self._is_told = True
            self._on_fault(text)


class RunSinks(Struct, eq=False):
    """The sinks of a session, run by run; the open run's log tells what they lose."""

    specs: Sequence[EventSinkSpec]
    settings: Mapping[str, Mapping[str, Any]]
    background: Background
    clock: Clock
    journal: Journal
    is_open: Callable[[], bool]  # nothing may follow the end of a run
    _runners: Sequence[_SinkRunner] = ()  # of the open run

    def open(
        self, task: str, workspace: str, goes_on: Sequence[AgentDescriptor] = ()
    ) -> Sequence[str]:
        """Open a run's sinks, which learn of agents it `goes_on` with; return problems."""
        run = RunInfo(
            run_id=self.journal.run_id,
            session=self.journal.session_id,
            task=task,
            workspace=workspace,
            agents=tuple(map(_left, goes_on)),
        )
        problems, runners = [], []
        for spec in self.specs:
            guest = Guest.of(spec)
            try:
                sink = _open(spec, guest, run, self.settings.get(spec.name, {}))
            except PluginError as error:
                problems.append(f"{error.message}: it gets no events of this run")
                continue
            runner = _SinkRunner(spec, sink, guest, self.clock, self._on_drop, self._on_fault)
            runner.task = self.background.start(runner.run(), name=f"sink {spec.name}")
            runners.append(runner)
        self._runners = runners
        return problems

    def publish(self, events: tuple[Event, ...]) -> None:
        """Offer committed events to every sink."""
        for runner in self._runners:
            runner.offer(events)

    async def settle(self) -> None:
        """Let each sink write what it has, for a bounded time, and report losses.

        A sink that is late is given up, so that its loss is reported before the run's end, which
        nothing may follow. New events make it busy again, so only one that is busy once the time is
        over has failed.
        """
        await self.journal.flush()
        seconds = self.background.parting.most(CLOSE_SECONDS)
        if not await first_of(self.clock, seconds, self._until_idle):
            for runner in self._runners:
                if not runner.idle.is_set():
                    runner.give_up(f"has not written all within {seconds:.2g} s")
        self._tell_dropped()
        await self.journal.flush()
        self._tell_dropped()  # what told of the others is lost to them, too

    def _tell_dropped(self) -> None:
        for runner in self._runners:
            runner.tell_dropped()

    async def _until_idle(self) -> None:
        for runner in self._runners:  # one that is idle no more writes the rest as it is closed
            await runner.idle.wait()

    async def aclose(self) -> None:
        """Let each sink write the rest and close, for a bounded time."""
        runners, self._runners = self._runners, ()
        for runner in runners:
            runner.close()
        tasks = {runner.task for runner in runners if runner.task is not None}
        seconds = self.background.parting.most(CLOSE_SECONDS)
        if tasks:
            await first_of(self.clock, seconds, lambda: asyncio.wait(tasks))
        for runner in runners:
            if runner.task is not None and not runner.task.done():
                runner.give_up(f"has not closed within {seconds:.2g} s")
            runner.tell_dropped()

    def _on_fault(self, text: str) -> None:
        if self.is_open():
            self.journal.tell("notice", level="warning", text=text)
        else:
            _log.warning("%s", text)

    def _on_drop(self, sink: str, count: int) -> None:
        if self.is_open():
            self.journal.tell("sink_dropped", sink=sink, count=count)
        else:
            _log.warning("event sink %s lost %d events at the end of the run", sink, count)


def _left(agent: AgentDescriptor) -> PeerNow:
    return PeerNow(
        agent_id=agent.agent_id,
        name=agent.name,
        role=agent.role,
        state=agent.state,
        labels=agent.labels,
    )


def _open(
    spec: EventSinkSpec, guest: Guest, run: RunInfo, settings: Mapping[str, Any]
) -> EventSink:
    factory = guest.load()
    with guest.calling("its factory"):
        sink: EventSink = factory(run, settings)
    for name in ("write", "aclose"):
        if not callable(getattr(sink, name, None)):
            raise guest.wrong("its factory", f"gave a {type(sink).__name__} without {name}")
    return sink
