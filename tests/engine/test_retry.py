"""What happens after a turn has failed: again, later, elsewhere, or not at all."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prsm_core.domain.turns import AgentError, ErrorKind
from prsm_core.engine.providers.registry import EXHAUSTED
from prsm_core.engine.providers.retry import RetryPolicy
from tests.engine.harness import failed

TRANSIENT = AgentError(kind=ErrorKind.MODEL_ERROR, message="busy", retryable=True)


@pytest.mark.requirement("E27")
async def test_a_transient_failure_is_continued_after_a_pause(fast_team):
    async def master(agent):
        if agent.turn == 1:
            await agent.say("begun")
            raise failed("busy", kind=ErrorKind.RATE_LIMIT, retryable=True)
        assert agent.text is None  # it goes on where it stopped
        await agent.complete()

    result = await fast_team.run("do it", master=master)
    assert result.status == "completed"
    [retry] = fast_team.ledger.events("retry_scheduled")
    assert retry["attempt"] == 1
    assert 0.8 <= retry["delay_s"] <= 1.2
    assert retry["error"] == {
        "kind": "rate_limit",
        "message": "busy",
        "retryable": True,
        "retry_after_s": None,
    }
    assert fast_team.clock.now() == pytest.approx(retry["delay_s"], abs=0.5)
    assert len(fast_team.provider.requests["master"]) == 1  # in the same session


@pytest.mark.requirement("E27")
async def test_it_is_tried_again_as_often_as_is_set(fast_team):
    async def master(agent):
        raise failed("still busy", retryable=True)

    result = await fast_team.run("do it", master=master)
    assert (result.status, result.error) == ("failed", "still busy")
    assert len(fast_team.ledger.events("turn_started")) == 6
    retries = fast_team.ledger.events("retry_scheduled")
    assert [retry["attempt"] for retry in retries] == [1, 2, 3, 4, 5]
    assert retries[1]["delay_s"] > retries[0]["delay_s"]


@pytest.mark.requirement("E27", "E28")
async def test_the_first_failure_tells_how_long_that_can_go_on(fast_team):
    began: list[float] = []

    async def master(agent):
        began.append(fast_team.clock.now())
        raise failed("no network", retryable=True)

    assert (await fast_team.run("do it", master=master)).status == "failed"
    retries = fast_team.ledger.events("retry_scheduled")
    assert [retry["tries_left"] for retry in retries] == list(range(len(began) - 1, 0, -1))
    for n, retry in enumerate(retries):
        rest = began[-1] - began[n]
        # The pauses to come are those that the breaker makes, too; each is told at its longest.
        assert rest - 1 <= retry["pauses_s"] <= rest + 3, f"retry {n}"


async def test_what_one_agent_tells_counts_what_the_others_have_failed(fast_team):
    async def master(agent):
        await agent.spawn(name="a")
        await agent.collect()
        await agent.spawn(name="b")
        await agent.collect()
        await agent.complete()

    async def down(agent):
        raise failed("down", retryable=True)

    await fast_team.run("do it", master=master, a=down, b=down)
    a, b = (fast_team.ledger.events("retry_scheduled", name)[0] for name in "ab")
    assert (a["tries_left"], b["tries_left"]) == (5, 5)
    assert a["pauses_s"] < 70
    assert b["pauses_s"] == 100  # the provider is known to be down: each is the breaker's


async def test_a_turn_that_succeeds_begins_the_count_anew(opened, fast_team):
    async def master(agent):
        if agent.turn in {1, 3, 5}:
            raise failed("busy", retryable=True)
        if agent.turn < 6:
            await fast_team.engine.prompting.prompt(agent.id, "go on", "queue")
            await agent.say("well")
            return
        await agent.complete()

    result = await fast_team.run("do it", master=master)
    assert result.status == "completed"
    assert [r["attempt"] for r in fast_team.ledger.events("retry_scheduled")] == [1, 1, 1]


async def test_a_pause_the_vendor_asks_for_is_kept(fast_team):
    async def master(agent):
        if agent.turn == 1:
            raise failed("slow down", retryable=True, after=29.0)
        await agent.complete()

    assert (await fast_team.run("do it", master=master)).status == "completed"
    [retry] = fast_team.ledger.events("retry_scheduled")
    assert retry["delay_s"] == 29
    assert fast_team.clock.now() == pytest.approx(29, abs=1)


@pytest.mark.parametrize("kind", sorted({*ErrorKind} - EXHAUSTED))
async def test_a_lasting_error_fails_at_once_unless_a_person_or_time_can_mend_it(fast_team, kind):
    async def master(agent):
        raise failed("no way", kind=kind)

    result = await fast_team.run("do it", master=master)
    assert (result.status, result.error) == ("failed", "no way")
    assert fast_team["master"].result.error_kind == kind.value
    assert fast_team.ledger.events("retry_scheduled") == []


async def test_the_slot_is_free_during_the_pause(opened, fast_clock):
    async def master(agent):
        await agent.call(
            "spawn_children_parallel",
            children=[{"prompt": "x", "name": "a"}, {"prompt": "y", "name": "b"}],
        )
        results = await agent.collect(2)
        assert [result["name"] for result in results] == ["b", "a"]
        await agent.complete()

    async def a(agent):
        if agent.turn == 1:
            raise failed("busy", retryable=True, after=29.0)
        await agent.complete()

    async with opened(clock=fast_clock, engine={"max_concurrent_agents": 1}) as team:
        result = await team.run("do it", master=master, a=a)
        assert result.status == "completed"
        assert team["b"].result.duration < 29


async def test_a_session_that_takes_no_further_turn_is_opened_anew_with_what_was_said(fast_team):
    async def master(agent):
        if agent.turn == 1:
            await agent.say("half")
            agent.session.reusable = False
            raise failed("the process died", retryable=True)
        assert agent.text is None
        assert [m.content for m in agent.context.history] == ["do it", "half"]
        await agent.complete()

    result = await fast_team.run("do it", master=master)
    assert result.status == "completed"
    assert len(fast_team.provider.requests["master"]) == 2


@pytest.mark.requirement("E28")
async def test_three_failures_in_a_row_pause_every_agent_of_the_provider(fast_team):
    async def master(agent):
        await agent.spawn(name="a")
        await agent.collect()
        await agent.spawn(name="b")
        await agent.collect()
        await agent.complete()

    async def a(agent):
        raise failed("down", retryable=True)

    async def b(agent):
        began.append(fast_team.clock.now())
        await agent.complete()

    began: list[float] = []
    result = await fast_team.run("do it", master=master, a=a, b=b)
    assert result.status == "completed"
    delays = [retry["delay_s"] for retry in fast_team.ledger.events("retry_scheduled")]
    assert delays[0] < delays[1] < 3
    assert delays[2:] == [20, 20, 20]
    failed_at = next(
        e for e in fast_team.ledger.events("agent_state_changed", "a") if e["to"] == "failed"
    )
    assert failed_at["to"] == "failed"
    assert began[0] >= sum(delays) + 20 - 1
    notices = fast_team.ledger.events("notice", "a")
    assert "failed 3 times in a row" in notices[0]["text"]


@given(failures=st.integers(1, 60), attempts=st.integers(0, 60), seed=st.integers(0, 2**32))
def test_back_off_doubles_from_one_to_thirty_seconds(failures, attempts, seed):
    policy = RetryPolicy(attempts=attempts, rng=random.Random(seed))
    delay = policy.delay(failures, TRANSIENT)
    if failures > attempts:
        assert delay is None
    else:
        base = min(2.0 ** (failures - 1), 30.0)
        assert 0.8 * base <= delay <= 1.2 * base


@given(after=st.floats(0, 10_000))
def test_what_the_vendor_asks_for_is_never_cut_short(after):
    error = AgentError(kind=ErrorKind.RATE_LIMIT, message="", retryable=True, retry_after_s=after)
    assert RetryPolicy().delay(1, error) >= after
