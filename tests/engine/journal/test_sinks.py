"""Sinks: bounded, in order, and unable to touch the engine."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest
from prsm_testing.fake_clock import FakeClock

from prsm_core.domain.events import Event
from prsm_core.engine.journal.sinks import RunSinks
from prsm_core.interfaces.sink import EventSink, EventSinkSpec
from prsm_core.kit.background import Background
from prsm_core.kit.clocks import SystemClock


class ListSink(EventSink):
    """Keeps what it is given; `before_write` may wait or raise."""

    def __init__(self, before_write=None):
        self.events = []
        self.closed = False
        self.run: Any = None  # what it was opened for
        self._before_write = before_write

    async def write(self, batch):
        if self._before_write is not None:
            await self._before_write(batch)
        self.events += batch

    async def aclose(self):
        self.closed = True


def spec(sink, name="list", **fields):
    def factory(run, settings):
        sink.run = run
        return sink

    return EventSinkSpec(name=name, summary="", factory=factory, **fields)


class SilentJournal:
    """Keeps what it is told."""

    run_id, session_id = "r", "s"

    def __init__(self, told):
        self._told = told

    def tell(self, kind, **data):
        self._told.append((kind, data))

    async def flush(self):
        return


async def talk(agent):
    for n in range(30):
        await agent.say(f"{n}")
    await agent.complete()


@pytest.mark.requirement("E85")
async def test_a_sink_gets_every_committed_event_of_its_run_in_order(opened):
    sink = ListSink()
    async with opened(sinks=[spec(sink)]) as team:
        await team.run("the task", master=talk)
        assert sink.closed
        assert [event.seq for event in sink.events] == list(range(1, len(sink.events) + 1))
        assert sink.events[-1].type == "run_finished"
        assert (sink.run.task, sink.run.workspace) == ("the task", str(team.workspace))
        assert sink.run.run_id == sink.events[0].run
        assert not {"text_delta", "thinking_delta"} & {event.type for event in sink.events}


async def test_a_sink_may_choose_its_kinds_of_event(opened):
    sink = ListSink()
    kinds = frozenset({"run_started", "run_finished"})
    async with opened(sinks=[spec(sink, kinds=kinds)]) as team:
        await team.run("do it", master=talk)
    assert [event.type for event in sink.events] == ["run_started", "run_finished"]


@pytest.mark.requirement("D4")
async def test_a_raising_sink_loses_its_batches_which_are_counted(opened):
    async def fail(batch):
        raise OSError("the pipe is broken")

    broken, good = ListSink(fail), ListSink()
    async with opened(sinks=[spec(broken, "broken"), spec(good, "good")]) as team:
        result = await team.run("do it", master=talk)
        assert result.status == "completed"
    assert broken.events == []
    assert broken.closed
    dropped = team.ledger.events("sink_dropped")
    assert {event["sink"] for event in dropped} == {"broken"}
    counted = sum(event["count"] for event in dropped)
    assert 0 < counted <= len(team.ledger.events())
    assert [event.seq for event in good.events] == sorted(event.seq for event in good.events)


@pytest.mark.requirement("D4")
@pytest.mark.parametrize("late", range(3))
async def test_a_sink_that_gets_more_just_as_its_last_write_ends_loses_nothing(late):
    """`late`: how many turns of the loop after that write."""
    lost: list[Any] = []
    gate = asyncio.Event()

    async def wait(batch):
        await gate.wait()

    sink, loop = ListSink(wait), asyncio.get_running_loop()
    first, second = (
        Event(type="notice", session="s", run="r", ts=1.0, agent=None, data={}, seq=seq)
        for seq in (1, 2)
    )
    async with Background(lambda *failure: lost.append(failure)) as background:
        journal: Any = SilentJournal(lost)
        clock = SystemClock()
        sinks = RunSinks([spec(sink)], {}, background, clock, journal, is_open=lambda: True)
        assert not sinks.open("do it", "/work")
        sinks.publish((first,))

        def publish(turns):
            if turns:
                loop.call_soon(publish, turns - 1)
            else:
                sinks.publish((second,))

        async def go_on():
            gate.set()
            publish(late)

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(sinks.settle())
            tasks.create_task(go_on())
        await sinks.aclose()
    assert (lost, sink.events) == ([], [first, second])


@pytest.mark.parametrize("overflow", ["drop_oldest", "drop_newest"])
async def test_a_slow_sink_drops_what_its_queue_cannot_hold(opened, overflow):
    gate, entered = asyncio.Event(), asyncio.Event()

    async def wait(batch):
        entered.set()
        await gate.wait()

    sink = ListSink(wait)

    async def master(agent):
        await entered.wait()
        await talk(agent)
        gate.set()

    async with opened(sinks=[spec(sink, maxsize=5, overflow=overflow)]) as team:
        result = await team.run("do it", master=master)
        assert result.status == "completed"
    first, *rest = (event.seq for event in sink.events)
    assert first == 1
    total = len(team.ledger.events())
    assert len(rest) < total - 1
    if overflow == "drop_oldest":
        assert sink.events[-1].type == "run_finished"


@pytest.mark.requirement("E85")
async def test_a_sink_that_hangs_does_not_hold_up_the_end_of_the_run(opened):
    async def hang(batch):
        await asyncio.Event().wait()

    sink = ListSink(hang)
    async with opened(sinks=[spec(sink)], clock=FakeClock()) as team:
        result = await team.run("do it", master=talk)
        assert result.status == "completed"
        assert team.clock.now() == pytest.approx(2, abs=0.5)
    assert sink.closed


async def test_a_sink_that_cannot_be_opened_is_named_and_left_out(opened):
    def factory(run, settings):
        raise OSError("no such folder")

    broken = EventSinkSpec(name="broken", summary="", factory=factory)
    sink = ListSink()
    async with opened(sinks=[broken, spec(sink)]) as team:
        assert (await team.run("do it", master=talk)).status == "completed"
    [notice] = team.ledger.events("notice")
    assert notice["level"] == "warning"
    assert "event sink broken failed in its factory: OSError: no such folder" in notice["text"]
    assert sink.events


async def test_each_run_opens_and_closes_its_own_sinks(opened):
    sinks = []

    def factory(run, settings):
        sinks.append(ListSink())
        return sinks[-1]

    async with opened(sinks=[EventSinkSpec(name="list", summary="", factory=factory)]) as team:
        await team.run("one")
        await team.run("two")
    assert [sink.closed for sink in sinks] == [True, True]
    runs = [{event.run for event in sink.events} for sink in sinks]
    assert [len(run) for run in runs] == [1, 1]
    assert runs[0] != runs[1]


async def test_a_run_that_begins_while_the_one_before_closes_its_sinks_waits_for_that(opened):
    closing, go_on, sinks = asyncio.Event(), asyncio.Event(), []

    class Sink(EventSink):
        def __init__(self):
            self.runs, self.closed = set(), False
            sinks.append(self)

        async def write(self, batch):
            self.runs |= {event.run for event in batch}

        async def aclose(self):
            closing.set()
            await go_on.wait()
            self.closed = True

    spec = EventSinkSpec(name="set", summary="", factory=lambda _run, _settings: Sink())
    async with opened(sinks=[spec]) as team:
        first = team.start("one")
        await closing.wait()
        assert not team.engine.is_running, "its run_finished is told already"
        second = team.start("two")
        await team.settled()
        assert len(sinks) == 1
        go_on.set()
        results = [await first, await second]
    assert [result.summary for result in results] == ["master is done", "m1 is done"]
    assert [(len(sink.runs), sink.closed) for sink in sinks] == [(1, True)] * 2
    assert sinks[0].runs != sinks[1].runs


@pytest.mark.requirement("D4")
@pytest.mark.parametrize("error", [SystemExit(3), GeneratorExit(), asyncio.CancelledError()])
@pytest.mark.parametrize("call", ["write", "aclose"])
async def test_whatever_a_sink_raises_is_its_own_failure_and_is_told_once(opened, error, call):
    class Broken(ListSink):
        async def write(self, batch):
            await self.fail("write")
            await super().write(batch)

        async def aclose(self):
            await self.fail("aclose")

        async def fail(self, now):
            await asyncio.sleep(0)
            if now == call:
                raise error

    good = ListSink()
    async with opened(sinks=[spec(Broken(), "broken"), spec(good, "good")]) as team:
        assert (await team.run("do it", master=talk)).status == "completed"
    assert good.events[-1].type == "run_finished"
    if call == "write":
        [notice] = team.ledger.events("notice")
        assert "event sink broken failed in write: " in notice["text"]
        assert team.ledger.events("sink_dropped")


@pytest.mark.requirement("D4")
async def test_what_a_sink_that_never_returns_has_lost_is_counted_before_the_run_ends(opened):
    """It hangs in its first write: today's queue would never have told."""

    async def hang(batch):
        await asyncio.Event().wait()

    sink = ListSink(hang)
    async with opened(sinks=[spec(sink)], clock=FakeClock()) as team:
        assert (await team.run("do it", master=talk)).status == "completed"
    assert lost(team) == offered(team)
    [notice] = team.ledger.events("notice")
    assert "event sink list has not written all within 2 s" in notice["text"]


@pytest.mark.requirement("D4")
async def test_what_a_sink_has_lost_is_counted_before_the_engine_leaves_its_run(opened):
    async def hang(batch):
        await asyncio.Event().wait()

    async def master(agent):
        await agent.say("one")
        said.set()
        await agent.hang()

    sink, said = ListSink(hang), asyncio.Event()
    async with opened(sinks=[spec(sink)], clock=FakeClock()) as team:
        running = team.start("do it", master=master)
        await said.wait()
        await team.engine.shutdown()
        assert (await running).status == "interrupted"
    assert lost(team) == offered(team)
    [notice] = team.ledger.events("notice")
    assert "event sink list has not written all within 2 s" in notice["text"]


async def test_a_write_without_an_end_is_given_up_while_the_run_goes_on(opened):
    gate = asyncio.Event()

    async def swallow(batch):
        while not gate.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await gate.wait()

    async def master(agent):
        await agent.say("one")
        await team.clock.sleep(60)
        assert team.ledger.events("sink_dropped")
        await talk(agent)

    sink = ListSink(swallow)
    async with opened(sinks=[spec(sink)], clock=FakeClock()) as team:
        assert (await team.run("do it", master=master)).status == "completed"
        gate.set()
        await team.settled()
    assert lost(team) == offered(team)
    [text] = [e["text"] for e in team.ledger.events("notice") if "event sink" in e["text"]]
    assert "event sink list did not end a write within 30 s" in text


def lost(team):
    return sum(event["count"] for event in team.ledger.events("sink_dropped"))


def offered(team):
    """Return how many events the sink was to get before the end of the run."""
    kinds = [event["type"] for event in team.ledger.events()]
    return len(kinds) - kinds.count("sink_dropped") - kinds.count("run_finished")


async def test_a_sink_is_told_which_agents_its_run_goes_on_with(opened):
    """No event of a follow-up tells who its master is."""
    runs = []

    def factory(run, settings):
        runs.append(run)
        return ListSink()

    async with opened(sinks=[EventSinkSpec(name="list", summary="", factory=factory)]) as team:
        await team.run("one", {"labels": {"team": "ui"}}, master=talk)
        (master,) = team.engine.manager.roster.records()
        await team.engine.run_continuation("two", master.agent_id)
    assert runs[0].agents == ()
    told = [(one.agent_id, one.name, one.labels) for one in runs[1].agents]
    assert told == [(master.agent_id, "master", {"team": "ui"})]
