"""Clocks: what counts as reasoning, silence and a tool's time, and what happens at the limit."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prsm_testing.fake_clock import FakeClock

from prsm_core.domain.turns import StopReason
from prsm_core.engine.turns.limits import TurnClock
from prsm_core.kit.clocks import SystemClock, first_of
from tests.engine.harness import DEADLINE

POLL = 6.0  # seconds; the watch looks at least every five


class ManualClock(SystemClock):
    """Time that a test sets."""

    def __init__(self) -> None:
        self.t = 100.0

    def now(self) -> float:
        return self.t


def turn_clock(clock, **limits):
    """Return the clock of a turn that may reason for so many seconds."""
    agent_seconds = limits.pop("agent_seconds", 1e9)
    measured = TurnClock(clock, **{"idle_seconds": 1e9, "tool_seconds": 1e9, **limits})
    measured.bound(measured.left_of(agent_seconds))
    return measured


async def pause(agent, seconds):
    await agent.session.provider.services.clock.sleep(seconds)


@pytest.mark.requirement("E25")
async def test_time_in_tools_is_not_reasoning(opened, fast_clock):
    async def master(agent):
        await agent.spawn(name="a")
        await agent.collect()  # 500 s of waiting
        await agent.start_tool()
        await pause(agent, 500)
        await agent.end_tool()
        await pause(agent, 60)
        await agent.complete()

    async def a(agent):
        await agent.start_tool()
        await pause(agent, 500)
        await agent.end_tool()
        await agent.complete()

    async with opened(clock=fast_clock, engine={"agent_timeout_seconds": 100.0}) as team:
        result = await team.run("do it", master=master, a=a)
        assert result.status == "completed"
        assert team["master"].reasoning_used == pytest.approx(60, abs=1)
        assert team["master"].result.duration == pytest.approx(1060, abs=1)


@pytest.mark.requirement("E25")
async def test_reasoning_adds_up_over_the_turns_of_a_life(opened, fast_clock):
    async def master(agent):
        await pause(agent, 60)
        await team.engine.prompting.prompt(agent.id, "go on", "queue")
        await agent.say(f"turn {agent.turn}")

    async with opened(clock=fast_clock, engine={"agent_timeout_seconds": 100.0}) as team:
        result = await team.run("do it", master=master)
        assert (result.status, result.summary) == ("failed", "")
        assert result.error == "the agent used up its reasoning time"
        assert team["master"].result.error_kind == "timeout"
        assert 100 <= fast_clock.now() <= 100 + POLL
    assert [e["stop_reason"] for e in team.ledger.events("turn_finished")] == [
        "end_turn",
        "timeout",
    ]


@pytest.mark.requirement("N5")
async def test_a_turn_is_told_the_time_that_it_has_and_ended_when_that_is_over(opened, fast_clock):
    async def master(agent):
        if agent.turn == 1:
            await pause(agent, 60)
            await team.engine.prompting.prompt(agent.id, "go on", "queue")
            await agent.say("turn 1")
            return
        await agent.start_tool()
        await pause(agent, 500)  # is no reasoning
        await agent.end_tool()
        await agent.hang()

    async with opened(clock=fast_clock, engine={"agent_timeout_seconds": 100.0}) as team:
        await team.run("do it", master=master)
        given = [context.timeout_ms for context in team.provider.contexts["master"]]
        assert given == [100_000, pytest.approx(40_000, abs=1000)]
        assert 600 <= fast_clock.now() <= 600 + POLL
    assert [e["stop_reason"] for e in team.ledger.events("turn_finished")] == [
        *("end_turn", "timeout"),
    ]


@pytest.mark.requirement("N5")
def test_what_a_turn_was_given_is_what_its_clock_holds():
    clock = ManualClock()
    measured = turn_clock(clock, used=30.0)
    assert measured.left_of(100) == 70_000
    clock.t += 10
    assert measured.left_of(100) == 60_000
    measured.bound(5_000)
    clock.t += 4
    assert measured.expired() is None
    clock.t += 1
    assert (measured.expired(), measured.left_of(40)) == ("reasoning", 0)


async def test_a_silent_provider_is_interrupted_and_the_agent_fails(opened, fast_clock):
    async def master(agent):
        await agent.say("last words")
        await agent.hang()

    async with opened(clock=fast_clock, engine={"idle_timeout_seconds": 300.0}) as team:
        result = await team.run("do it", master=master)
        assert (result.status, result.summary) == ("failed", "last words")
        assert result.error == "the provider was silent for too long"
        assert 300 <= fast_clock.now() <= 300 + POLL
        assert team.provider.interrupted == ["master"]
    assert team.ledger.events("turn_finished")[0]["stop_reason"] == "timeout"


async def test_a_provider_that_speaks_now_and_then_is_not_silent(opened, fast_clock):
    async def master(agent):
        for n in range(10):
            await pause(agent, 90)
            await agent.begin_to_say(f"{n} ")
        await agent.complete()

    async with opened(clock=fast_clock, engine={"idle_timeout_seconds": 100.0}) as team:
        assert (await team.run("do it", master=master)).status == "completed"


@pytest.mark.requirement("E26")
async def test_a_vendors_tool_that_runs_too_long_fails_the_agent(opened, fast_clock):
    async def master(agent):
        await agent.start_tool("quick")
        await agent.start_tool("slow")
        await pause(agent, 50)
        await agent.end_tool("quick")
        await agent.hang()

    async with opened(clock=fast_clock, engine={"tool_timeout_seconds": 200.0}) as team:
        result = await team.run("do it", master=master)
        assert result.error == "a tool call ran for too long"
        assert team["master"].result.error_kind == "timeout"
        assert 200 <= fast_clock.now() <= 200 + POLL
    calls = team.ledger.rows("SELECT id, status FROM tool_calls ORDER BY id")
    assert calls == [("quick", "completed"), ("slow", "unknown")]


async def test_a_provider_that_ignores_the_interrupt_is_cancelled(opened, fast_clock):
    async def master(agent):
        await agent.hang()

    limits = {"idle_timeout_seconds": 300.0}
    async with opened(clock=fast_clock, engine=limits, obeys=False) as team:
        result = await team.run("do it", master=master)
        assert result.error == "the provider was silent for too long"
        assert 305 <= fast_clock.now() <= 305 + POLL


async def test_a_provider_whose_interrupt_breaks_is_cancelled_all_the_same(opened, fast_clock):
    async def master(agent):
        async def interrupt():
            raise OSError("no such turn")

        agent.session.interrupt = interrupt
        await agent.hang()

    async with opened(clock=fast_clock) as team:
        result = await team.run("do it", master=master)
        assert result.error == "the provider was silent for too long"
    assert any("no such turn" in e["text"] for e in team.ledger.events("notice"))


async def test_a_kill_while_a_turn_is_being_timed_out_is_a_kill(opened, fast_clock):
    async def master(agent):
        await agent.hang()

    async with opened(clock=fast_clock, obeys=False) as team:
        running = team.start("do it", master=master)
        async with asyncio.timeout(DEADLINE):
            await team.provider.interrupt_came.wait()
        await team.manager.kill_agent(team["master"].agent_id)
        assert (await running).status == "killed"


async def test_five_seconds_without_a_word_count_as_the_end_of_the_response(opened, fast_clock):
    """A provider that never says StepEnded still gives its slot back."""

    async def master(agent):
        arguments = {"prompt": "x", "wait": True}
        outcome = await agent.outcome("spawn_child", arguments, step=False)
        assert outcome.data["result"]["success"]
        await agent.complete()

    async def w1(agent):
        assert 5 <= fast_clock.now() <= 5 + POLL
        await agent.complete()

    async with opened(clock=fast_clock, engine={"max_concurrent_agents": 1}) as team:
        result = await team.run("do it", master=master, w1=w1)
        assert result.status == "completed"
    assert team.ledger.states("master") == [
        "pending",
        "starting",
        "running",
        "waiting_for_child",
        "running",
        "completed",
    ]


async def test_a_vendors_tool_beside_a_wait_keeps_the_agent_running(opened, fast_clock):
    async def master(agent):
        await agent.start_tool()
        agent.session.provider.services.start_soon(
            agent.outcome, "spawn_child", {"prompt": "x", "wait": True}, name="a parallel call"
        )
        await agent.step_ended()
        await team.seen("agent_spawned", "w1")
        await pause(agent, 60)
        assert team["master"].state.value == "running"
        assert team["w1"].state.value == "pending"  # there is one slot
        await agent.end_tool()
        await team.seen("agent_state_changed", "master", to="waiting_for_child")
        await team.seen("agent_state_changed", "w1", to="completed")
        await agent.complete()

    async with opened(clock=fast_clock, engine={"max_concurrent_agents": 1}) as team:
        result = await team.run("do it", master=master)
        assert result.status == "completed"


async def test_the_model_takes_a_slot_again_when_it_speaks_although_a_call_waits(opened):
    async def master(agent):
        agent.session.provider.services.start_soon(
            agent.outcome, "wait_for_message", {}, name="a call"
        )
        await agent.spawn(name="a")
        await team.seen("agent_state_changed", "master", to="waiting_for_child")
        await agent.begin_to_say("meanwhile")
        assert team["master"].state.value == "running"
        await agent.complete()

    async def a(agent):
        await team.seen("agent_state_changed", "master", reason="answered")
        await agent.complete()

    async with opened() as team:
        result = await team.run("do it", master=master, a=a)
        assert result.status == "completed", result


EVENT = st.one_of(
    st.tuples(st.just("pass"), st.floats(0, 100)),
    st.tuples(st.just("touch"), st.none()),
    st.tuples(st.just("start"), st.none()),
    st.tuples(st.just("finish"), st.none()),
    st.tuples(st.just("vendor"), st.sampled_from("ab")),
    st.tuples(st.just("vendor end"), st.sampled_from("abc")),
)


@given(events=st.lists(EVENT, max_size=60), used=st.floats(0, 50))
def test_reasoning_is_the_time_in_which_no_tool_ran(events, used):
    clock = ManualClock()
    measured = TurnClock(clock, idle_seconds=1e9, tool_seconds=1e9, used=used)
    expected, tools = used, 0
    vendor: set[str] = set()
    for kind, value in events:
        match kind:
            case "pass":
                expected += 0 if tools or vendor else value
                clock.t += value
            case "touch":
                measured.touch()
            case "start":
                measured.tool_started()
                tools += 1
            case "finish" if tools:
                measured.tool_finished()
                tools -= 1
            case "vendor":
                measured.tool_started(value)
                vendor.add(value)
            case "vendor end":
                measured.tool_finished(value)
                vendor.discard(value)
        assert measured.reasoning == pytest.approx(expected)
        assert measured.open_tools == tools + len(vendor)
        assert measured.expired() is None


@given(
    limit=st.integers(1, 1000),
    steps=st.lists(st.tuples(st.floats(0, 300), st.booleans()), max_size=30),
)
def test_a_clock_expires_when_its_remaining_time_has_passed(limit, steps):
    clock = ManualClock()
    measured = turn_clock(clock, agent_seconds=limit)
    for seconds, in_tool in steps:
        if in_tool:
            measured.tool_started()
        if not in_tool and measured.expired() is None:
            assert measured.remaining() == pytest.approx(limit - measured.reasoning)
        clock.t += seconds
        if in_tool:
            measured.tool_finished()
        assert (measured.expired() == "reasoning") == (measured.reasoning >= limit)


def test_silence_is_counted_from_the_last_event_or_the_end_of_the_last_tool():
    clock = ManualClock()
    measured = turn_clock(clock, idle_seconds=10)
    clock.t += 9
    measured.touch()
    clock.t += 9
    assert (measured.expired(), measured.remaining()) == (None, pytest.approx(1))
    measured.tool_started("v")
    clock.t += 50
    assert measured.expired() is None
    measured.tool_finished("v")
    clock.t += 9
    assert measured.expired() is None
    clock.t += 1
    assert (measured.expired(), measured.remaining()) == ("idle", 0)


def test_each_vendor_call_has_a_clock_of_its_own():
    clock = ManualClock()
    measured = turn_clock(clock, tool_seconds=10)
    measured.tool_started("a")
    clock.t += 6
    measured.tool_started("b")
    assert measured.remaining() == pytest.approx(4)
    measured.tool_finished("a")
    clock.t += 6
    assert (measured.expired(), measured.remaining()) == (None, pytest.approx(4))
    clock.t += 4
    assert measured.expired() == "tool"


async def test_first_of_tells_which_came_first():
    clock = FakeClock()
    assert await first_of(clock, None, lambda: clock.sleep(5))
    assert await first_of(clock, 10, lambda: clock.sleep(5))
    assert clock.now() == 10
    assert not await first_of(clock, 10, lambda: clock.sleep(50))
    assert clock.now() == 20


@pytest.mark.parametrize("error", [OSError, TimeoutError])
async def test_first_of_raises_the_error_itself(error):
    async def wait():
        raise error("broken")

    with pytest.raises(error, match="broken"):
        await first_of(FakeClock(), 10, wait)


async def test_first_of_starts_no_task():
    clock = FakeClock()
    running = []

    async def wait():
        running.append((asyncio.current_task(), asyncio.all_tasks()))
        await clock.sleep(5)

    before = asyncio.current_task(), asyncio.all_tasks()
    assert await first_of(clock, 10, wait)
    assert not await first_of(clock, 3, wait)
    assert running == [before, before]


async def test_first_of_lets_itself_be_cancelled():
    clock = FakeClock()
    started = asyncio.Event()

    async def wait():
        started.set()
        await asyncio.Event().wait()

    task = asyncio.ensure_future(first_of(clock, 10, wait))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert clock.now() == 0


async def test_first_of_raises_what_ends_in_its_stead():
    async def wait():
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise OSError("it would not stop") from None

    with pytest.raises(OSError, match="it would not stop"):
        await first_of(FakeClock(), 10, wait)


async def test_first_of_has_ended_the_loser_when_it_returns():
    ended = asyncio.Event()

    async def wait():
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    assert not await first_of(FakeClock(), 10, wait)
    assert ended.is_set()


async def test_the_system_clock_goes_forward():
    clock = SystemClock()
    before = clock.now()
    await clock.sleep(0)
    assert clock.now() >= before
    assert clock.time() > 1_700_000_000


def test_a_stop_reason_timeout_exists_for_what_the_clocks_end():
    assert StopReason.TIMEOUT.value == "timeout"
