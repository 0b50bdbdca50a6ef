"""The feed: committed events without gap or double, live ones as long as a reader keeps up."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any, cast

import pytest

from prsm_core.domain.events import Event
from prsm_core.domain.turns import TextDelta, ThinkingDelta
from prsm_core.engine.journal.feed import Feed
from prsm_core.kit.background import Background
from tests.engine.harness import DEADLINE, SESSION

STARTED = "tool_call_started"


async def read_all(feed, after=0):
    """Return what the feed gives up to run_finished."""
    events = []
    async with aclosing(feed.events(SESSION, after)) as source:
        async for event in source:
            events.append(event)
            if event.type == "run_finished":
                return events
    return events


async def talk(agent):
    for n in range(20):
        await agent.begin_to_say(f"{n}")
        await agent.say(f"{n}")
    await agent.complete()


@pytest.mark.requirement("D4")
async def test_a_reader_gets_every_committed_event_once_and_the_deltas_between(team):
    running = team.start("do it", master=talk)
    events = await read_all(team.engine.feed)
    await running
    numbers = [event.seq for event in events if event.seq is not None]
    assert numbers == list(range(1, len(numbers) + 1))
    live = [event for event in events if event.seq is None]
    assert {event.type for event in live} == {"text_delta"}
    assert [event.data["text"] for event in live] == [f"{n}" for n in range(20)]


async def test_a_turn_streams_its_start_its_thinking_its_text_its_tools_and_its_end(team):
    async def master(agent):
        await agent.tell(ThinkingDelta("hm"))
        await agent.begin_to_say("We")
        await agent.start_tool("v1", "Read", path="a")
        await agent.end_tool("v1", result="text")
        await agent.say("We are done.")
        await agent.complete()

    running = team.start("do it", master=master)
    events = await read_all(team.engine.feed)
    await running
    told = {
        "turn_started",
        "thinking_delta",
        "text_delta",
        "tool_call_started",
        "tool_call_finished",
        "turn_finished",
    }
    vendor = [e for e in events if e.type in told and e.data.get("tool") != "task_complete"]
    live = [(e.type, e.data["text"]) for e in vendor if e.seq is None]
    assert live == [("thinking_delta", "hm"), ("text_delta", "We")]
    kept = [e.type for e in vendor if e.seq is not None]
    assert kept[:3] == ["turn_started", "tool_call_started", "tool_call_finished"]
    assert kept[-1] == "turn_finished"


@pytest.mark.parametrize("after", [0, 1, 10])
async def test_a_reader_that_comes_later_begins_where_it_says(team, after):
    await team.run("do it", master=talk)
    events = await read_all(team.engine.feed, after)
    numbers = [event.seq for event in events if event.seq is not None]
    assert numbers == list(range(after + 1, events[-1].seq + 1))
    whole = [event.data["text"] for event in events if event.type == "message_completed"]
    again = [event.data["text"] for event in events if event.seq is None]
    assert again == (whole[-20:] if after else [])


async def test_a_reader_that_joins_in_the_middle_misses_nothing(team):
    reached, go_on = asyncio.Event(), asyncio.Event()

    async def master(agent):
        await agent.say("one")
        reached.set()
        await go_on.wait()
        await talk(agent)

    running = team.start("do it", master=master)
    await reached.wait()
    reading = asyncio.ensure_future(read_all(team.engine.feed))
    await team.settled()
    go_on.set()
    numbers = [event.seq for event in await reading if event.seq is not None]
    await running
    assert numbers == list(range(1, numbers[-1] + 1))


async def test_a_slow_reader_loses_deltas_is_told_so_and_no_committed_event(team):
    async def master(agent):
        await started.wait()
        for n in range(700):  # of two texts in turn: none goes on where the last one ended
            await agent.tell((ThinkingDelta if n % 2 else TextDelta)("x "))
        await agent.say("now")
        read_on.set()
        await agent.complete()

    started, read_on = asyncio.Event(), asyncio.Event()
    running = team.start("do it", master=master)
    events = []
    async with aclosing(team.engine.feed.events(SESSION)) as source:
        async for event in source:
            events.append(event)
            started.set()
            if len(events) == 1:
                await read_on.wait()
            if event.type == "run_finished":
                break
    await running
    numbers = [event.seq for event in events if event.seq is not None]
    assert numbers == list(range(1, len(numbers) + 1))
    deltas = "".join(event.data["text"] for event in events if event.type.endswith("_delta"))
    # a committed event that comes between them parts what was lost into two notices
    told = [event.data["text"] for event in events if event.type == "notice" and event.seq is None]
    assert all("live updates were not shown" in text for text in told)
    assert sum(int(text.split()[0]) for text in told) == 700 - deltas.count("x")
    assert deltas.count("x") < 700


async def test_a_slow_reader_has_all_of_a_text_in_fewer_pieces(team):
    async def master(agent):
        await started.wait()
        for n in range(700):
            await agent.begin_to_say(f"{n} ")
        await agent.say("".join(f"{n} " for n in range(700)))
        read_on.set()
        await agent.complete()

    started, read_on = asyncio.Event(), asyncio.Event()
    running = team.start("do it", master=master)
    events = []
    async with aclosing(team.engine.feed.events(SESSION)) as source:
        async for event in source:
            events.append(event)
            started.set()
            if len(events) == 1:
                await read_on.wait()
            if event.type == "run_finished":
                break
    await running
    pieces = [event for event in events if event.type == "text_delta"]
    [whole] = [event for event in events if event.data.get("role") == "assistant"]
    assert "".join(event.data["text"] for event in pieces) == whole.data["text"]
    assert [event.data["at"] for event in pieces] == ends_of(pieces)
    assert len(pieces) < 500
    assert not [event for event in events if event.type == "notice"]


def ends_of(pieces):
    """Return where each piece begins, if none is missing."""
    ends = [0]
    for piece in pieces[:-1]:
        ends.append(ends[-1] + len(piece.data["text"]))
    return ends


async def test_each_piece_is_told_by_itself_also_behind_a_write_that_takes_its_time(team):
    """N23: nothing on the way from the provider joins what the provider said apart."""

    async def master(agent):
        for number in range(3):
            await agent.start_tool(f"v{number}", "Read", path="a")  # on its way to the store
            await agent.tell(*[TextDelta(f"{number}.{n} ") for n in range(5)])
            await agent.end_tool(f"v{number}")
        await agent.complete()

    running = team.start("do it", master=master)
    events = await read_all(team.engine.feed)
    await running
    pieces = [event for event in events if event.type == "text_delta"]
    assert [event.data["text"] for event in pieces] == [
        f"{number}.{n} " for number in range(3) for n in range(5)
    ]
    assert [event.data["at"] for event in pieces] == ends_of(pieces)
    order = [event.data.get("call") for event in events if event.type in {"text_delta", STARTED}]
    ours = [call for call in order if call is None or call.startswith("v")]
    assert ours == ["v0", *[None] * 5, "v1", *[None] * 5, "v2", *[None] * 5]


async def test_what_is_lost_before_and_after_a_late_event_is_told_in_two_parts():
    def event(kind, seq=None):
        data = {"text": "x"} if kind == "text_delta" else {}
        return Event(type=kind, session=SESSION, run=None, ts=0.0, seq=seq, data=data)

    class Source:
        """A store whose reader gets its second event when the test lets it."""

        async def events(self, session_id, after, *, follow):
            yield event("run_started", 1)
            await late.wait()
            yield event("turn_started", 2)
            await last.wait()
            yield event("run_finished", 3)

    late, last = asyncio.Event(), asyncio.Event()
    seen, failed = [], []
    async with Background(lambda task, error: failed.append(error)) as background:
        feed: Any = Feed(cast("Any", Source()), background)
        async with aclosing(feed.events(SESSION)) as source:
            async for given in source:
                seen.append(given)
                if given.seq is None and given.type != "notice":
                    continue
                if given.seq in (1, 2):
                    for _ in range(600):
                        feed.offer(event("text_delta"), 0)
                    (late if given.seq == 1 else last).set()
                if given.seq == 3:
                    break
    told = [given.data["text"] for given in seen if given.type == "notice"]
    deltas = sum(given.type == "text_delta" for given in seen)
    assert not failed
    assert len(told) == 2
    assert sum(int(text.split()[0]) for text in told) == 1200 - deltas


async def test_readers_end_with_the_engine(opened):
    finished = asyncio.Event()

    async def read(feed):
        async with aclosing(feed.events(SESSION)) as source:
            async for event in source:
                if event.type == "run_finished":
                    finished.set()

    async with opened() as team:
        reading = asyncio.ensure_future(read(team.engine.feed))
        await team.run()
        await finished.wait()
        assert not reading.done()  # it follows what comes next
    async with asyncio.timeout(DEADLINE):
        await reading


async def test_a_reader_that_leaves_costs_nothing_more(team):
    async with aclosing(team.engine.feed.events(SESSION)) as source:
        reading = asyncio.ensure_future(anext(source))
        await team.run()
        assert (await reading).type == "run_started"
        assert len(team.engine.feed._readers) == 1
    assert team.engine.feed._readers == set()
