"""A conversation that is too long is summarised, once, and goes on from its summary."""

from __future__ import annotations

import pytest
from prsm_testing.fake_clock import FakeClock

from prsm_core.domain.turns import ErrorKind, StopReason, UsageReported
from prsm_core.domain.usage import TokenUsage
from prsm_core.engine.agents.side_query import SUMMARY_PROMPT
from prsm_core.engine.turns.context import count_tokens
from prsm_core.interfaces.provider import ProviderCapabilities
from tests.engine.harness import failed

WINDOW = 10_000


def settings(window=WINDOW, models=None, fallbacks=(), **context):
    return {
        "defaults": {"provider": "script", "model": "small", "fallbacks": list(fallbacks)},
        "model_registry": {
            **({"small": {"max_context": window}} if window else {}),
            **(models or {}),
        },
        "context": context,
    }


def too_long(message="prompt is too long"):
    return failed(message, kind=ErrorKind.CONTEXT_OVERFLOW)


async def summarise(agent):
    await agent.use(input_tokens=700, output_tokens=30, total_tokens=730)
    await agent.say("SUMMARY: half of it is done")


def nth(agent):
    """Return the number of an agent's turn, those of its summaries apart."""
    return len(agent.session.provider.contexts[agent.name])


def contexts(team, name="master"):
    return team.provider.contexts[name]


def notices(team):
    return [notice["text"] for notice in team.ledger.events("notice")]


def turns(team):
    return team.ledger.rows("SELECT turn_type, status, model FROM turns ORDER BY turn_no")


def spoken(count, size=900):
    """Return a master that says so much in its first turn, and is then told it was too much."""

    async def master(agent):
        if nth(agent) == 1:
            for number in range(count):
                await agent.say(f"note {number}: " + "x" * size)
            raise too_long()
        await agent.complete("all done")

    return master


@pytest.mark.requirement("N3", "N5")
async def test_a_summary_is_asked_for_with_the_effort_of_its_agent_and_a_time_of_its_own(opened):
    async def hangs(agent):
        await agent.hang()

    alias = {"provider": "script", "model_id": "small", "reasoning_effort": "low"}
    given = {**settings(), "models": {"terse": alias}}
    given["defaults"] = {**given["defaults"], "model": "terse"}
    clock = FakeClock()
    async with opened(settings=given, clock=clock, engine={"idle_timeout_seconds": 40.0}) as team:
        await team.run("do", master=spoken(20), **{"master-summary": hangs})
        asked = contexts(team, "master-summary")
    assert asked
    for context in asked:
        assert (context.thinking_config, context.timeout_ms) == ({"effort": "low"}, 40_000)
    assert 40 <= clock.now() < 600, "it is given up in its own time, and not in an agent's"


@pytest.mark.requirement("N24")
@pytest.mark.requirement("N32")
async def test_a_prompt_that_is_too_long_is_tried_once_more_after_a_compaction(opened):
    async with opened(settings=settings(), gives_tokens=True) as team:
        result = await team.run("do it", master=spoken(20), **{"master-summary": summarise})
        first, second = contexts(team)
        [asked] = contexts(team, "master-summary")
        requests = team.provider.requests
    assert (result.status, result.summary) == ("completed", "all done")
    assert [request.resume_token for request in requests["master"]] == [None, None]
    assert first.history == ()
    prompt, summary, *kept = second.history
    assert prompt.content.endswith("\ndo it")
    assert summary.content.endswith("\nSUMMARY: half of it is done")
    assert [m.content.split(":")[0] for m in kept] == [f"note {n}" for n in range(20)][-len(kept) :]
    assert 0 < sum(count_tokens(m.content) for m in kept) <= WINDOW * 0.8 * 0.25
    assert second.token_budget.used <= WINDOW * 0.8
    assert second.current_message is None
    told = asked.current_message.content
    assert asked.system_prompt == SUMMARY_PROMPT
    assert "> do it" in told
    assert "> note 0: xx" in told
    assert f"> note {20 - len(kept) - 1}: xx" in told
    assert f"> note {20 - len(kept)}: xx" not in told
    assert team.ledger.events("retry_scheduled") == []


@pytest.mark.requirement("N13")
@pytest.mark.requirement("N15")
async def test_a_compaction_is_a_turn_of_its_own_with_all_that_it_took(opened):
    async with opened(settings=settings()) as team:
        result = await team.run("do it", master=spoken(20), **{"master-summary": summarise})
        _, second = contexts(team)
    assert turns(team) == [
        ("normal", "failed", "small"),
        ("compaction", "completed", "small"),
        ("normal", "completed", "small"),
    ]
    first, compaction, third = team.ledger.rows(
        "SELECT id, parent_turn_id, total_tokens, has_children, tool_call_count"
        " FROM turns ORDER BY turn_no"
    )
    assert {len(turn[0]) for turn in (first, compaction, third)} == {26}, "ULIDs"
    assert [turn[3:] for turn in (first, compaction, third)] == [(1, 0), (1, 0), (0, 1)]
    assert (compaction[1], third[1]) == (first[0], compaction[0])
    assert compaction[2] == 730
    assert result.usage.total_tokens == 730
    [row] = team.ledger.rows("SELECT * FROM compactions")
    kept = len(second.history) - 2
    turn, summary, through, first_kept, count, model, provider, *numbers, trigger = row
    assert (turn, summary) == (compaction[0], "SUMMARY: half of it is done")
    assert (through, first_kept, count) == (first[0], first[0], 1)
    assert (model, provider, trigger) == ("small", "script", "overflow_recovery")
    before, after, of_summary, sent, answered, duration = numbers
    assert before > after > of_summary == count_tokens(summary)
    assert (sent, answered) == (700, 30)
    assert duration >= 0
    [started] = team.ledger.events("compaction_started")
    [finished] = team.ledger.events("compaction_finished")
    assert started["window"] == WINDOW
    assert started["tokens"] == before
    assert (finished["kept"], finished["prompt"], finished["error"]) == (kept, "do it", None)
    assert (finished["tokens_before"], finished["tokens_after"]) == (before, after)


@pytest.mark.requirement("N4")
async def test_a_turn_that_would_pass_the_budget_begins_compacted(opened):
    async def master(agent):
        match nth(agent):
            case 1:
                await agent.spawn("work")
                await agent.say("begun " + "x" * 12_000)
                await agent.tell(UsageReported(TokenUsage(), context_used=7999))
            case 2:
                await agent.complete("all done")

    async with opened(settings=settings(), gives_tokens=True) as team:
        result = await team.run("do it", master=master, **{"master-summary": summarise})
        _, second = contexts(team)
        tokens = [request.resume_token for request in team.provider.requests["master"]]
    assert result.status == "completed"
    assert tokens == [None, None], "the vendor's thread was given up"
    assert [m.content.split("\n")[-1] for m in second.history] == [
        "do it",
        "SUMMARY: half of it is done",
    ]
    assert "has completed its task" in second.current_message.content
    [row] = team.ledger.rows("SELECT tokens_before, trigger FROM compactions")
    assert row == (7999, "context_limit")


async def test_a_vendor_that_compacts_its_own_thread_is_left_to_it(opened):
    async def master(agent):
        if nth(agent) == 1:
            await agent.spawn("work")
            await agent.tell(UsageReported(TokenUsage(), context_used=WINDOW - 1))
            return
        await agent.complete()

    able = ProviderCapabilities(enforcement="pre_tool", compacts=True)
    async with opened(settings=settings(), gives_tokens=True, capabilities=able) as team:
        await team.run("do it", master=master)
        assert [request.resume_token for request in team.provider.requests["master"]] == [None]
    assert team.ledger.events("compaction_started") == []


@pytest.mark.requirement("N12")
@pytest.mark.requirement("N24")
async def test_what_is_too_long_after_the_compaction_too_fails_with_what_was_said(opened):
    async def master(agent):
        await agent.say(f"try {nth(agent)}")
        raise too_long()

    async with opened(settings=settings()) as team:
        result = await team.run("do it", master=master, **{"master-summary": summarise})
        agent = team["master"]
    assert result.status == "failed"
    assert result.error.startswith("prompt is too long; its conversation was compacted")
    assert (agent.result.error_kind, agent.result.summary) == ("context_overflow", "try 2")
    assert [turn[0] for turn in turns(team)] == ["normal", "compaction", "normal"]


@pytest.mark.requirement("N12")
async def test_a_summary_that_cannot_be_had_fails_the_agent_and_keeps_what_was_said(opened):
    async def broken(agent):
        await agent.use(input_tokens=5, output_tokens=0, total_tokens=5)
        raise failed("no such model")

    async with opened(settings=settings()) as team:
        result = await team.run("do it", master=spoken(3), **{"master-summary": broken})
        agent = team["master"]
    assert (result.status, agent.result.error_kind) == ("failed", "compaction_failure")
    assert result.error == (
        "prompt is too long; the conversation could not be summarised by script/small: "
        "no such model"
    )
    assert agent.result.summary.startswith("note 0: xx")
    assert turns(team)[1:] == [("compaction", "failed", "small")]
    assert team.ledger.rows("SELECT count(*) FROM compactions") == [(0,)]
    assert result.usage.total_tokens == 5, "what it used is charged"
    [told] = team.ledger.events("compaction_finished")
    assert told["error"]["kind"] == "compaction_failure"


async def test_a_summary_is_tried_again_after_a_transient_failure(opened):
    async def limited(agent):
        if nth(agent) < 3:
            raise failed("slow down", kind=ErrorKind.RATE_LIMIT, retryable=True)
        await summarise(agent)

    async with opened(clock=FakeClock(), settings=settings()) as team:
        result = await team.run("do it", master=spoken(3), **{"master-summary": limited})
    assert result.status == "completed"
    assert len(team.ledger.events("retry_scheduled")) == 2
    assert [turn[:2] for turn in turns(team)] == [
        ("normal", "failed"),
        ("compaction", "failed"),
        ("compaction", "failed"),
        ("compaction", "completed"),
        ("normal", "completed"),
    ]


async def test_at_the_budget_a_failure_is_told_and_the_thread_goes_on_as_it_is(opened):
    async def master(agent):
        if nth(agent) < 3:
            await agent.spawn("work")
            await agent.tell(UsageReported(TokenUsage(), context_used=9000))
            return
        await agent.complete()

    async def broken(agent):
        raise failed("no such model")

    async with opened(settings=settings(), gives_tokens=True) as team:
        result = await team.run("do it", master=master, **{"master-summary": broken})
        tokens = [request.resume_token for request in team.provider.requests["master"]]
    assert result.status == "completed"
    assert tokens == [None, "thread-master"], "the same thread"
    assert len(team.ledger.events("compaction_started")) == 1, "it is not tried at each turn"
    assert any("no such model; it goes on as it is" in text for text in notices(team))


async def test_another_model_takes_over_where_no_summary_can_be_had(opened):
    async def broken(agent):
        raise failed("no such model")

    given = settings(models={"large": {"max_context": 100_000}}, fallbacks=["script/large"])
    async with opened(settings=given) as team:
        result = await team.run("do it", master=spoken(20), **{"master-summary": broken})
        _, second = contexts(team)
    assert result.status == "completed"
    assert second.model == "large"
    assert len(second.history) == 21, "it has room for all"
    assert team.ledger.rows("SELECT count(*) FROM compactions") == [(0,)]


async def test_a_prompt_that_is_too_long_by_itself_is_not_summarised(opened):
    async def master(agent):
        raise too_long()

    async with opened(settings=settings()) as team:
        result = await team.run("do it", master=master)
    assert (result.status, result.error) == ("failed", "prompt is too long")
    assert team.ledger.events("compaction_started") == []


async def test_never_means_never(opened):
    async with opened(settings=settings(compaction="never")) as team:
        result = await team.run("do it", master=spoken(3))
    assert (result.status, result.error) == ("failed", "prompt is too long")
    assert team.ledger.events("compaction_started") == []


async def test_a_cheap_model_writes_the_summary_where_one_is_set(opened):
    given = settings(summary_model="script/cheap")
    async with opened(settings=given) as team:
        result = await team.run("do it", master=spoken(3), **{"master-summary": summarise})
        [request] = team.provider.requests["master-summary"]
    assert result.status == "completed"
    assert (request.model, request.native_tools) == ("cheap", frozenset())
    assert turns(team)[1] == ("compaction", "completed", "cheap")


async def test_a_summary_model_that_there_is_not_is_told_and_the_own_model_writes(opened):
    given = {
        **settings(summary_model="cheap"),
        "models": {"cheap": {"provider": "nowhere", "model_id": "c"}},
    }
    async with opened(settings=given) as team:
        result = await team.run("do it", master=spoken(3), **{"master-summary": summarise})
    assert result.status == "completed"
    assert turns(team)[1][2] == "small"
    assert any("script/small writes the summary" in text for text in notices(team))


async def test_what_no_request_can_hold_is_summarised_in_parts(opened):
    async def in_parts(agent):
        await agent.say(f"SUMMARY {nth(agent)}")

    given = settings(models={"cheap": {"max_context": 3000}}, summary_model="script/cheap")
    async with opened(settings=given) as team:
        await team.run("do it", master=spoken(20), **{"master-summary": in_parts})
        asked = contexts(team, "master-summary")
        _, second = contexts(team)
    assert len(asked) > 2
    for number, context in enumerate(asked):
        text = context.current_message.content
        assert count_tokens(SUMMARY_PROMPT) + count_tokens(text) <= 3000 * 0.8
        assert (f"> SUMMARY {number}\n" in text) == (number > 0)
    notes = [f"> note {n}:" for n in range(20)]
    kept = len(second.history) - 2
    told = "".join(context.current_message.content for context in asked)
    assert [note for note in notes if note in told] == notes[: 20 - kept]
    assert second.history[1].content.endswith(f"\nSUMMARY {len(asked)}")


async def test_a_second_compaction_goes_on_from_the_summary_of_the_first(opened):
    async def master(agent):
        if nth(agent) in {1, 3}:
            await agent.say(f"part {nth(agent)} " + "x" * 8000)
            raise too_long()
        if nth(agent) == 2:
            await agent.spawn("work")
            return
        await agent.complete()

    async def again(agent):
        await agent.say(f"SUMMARY {nth(agent)}")

    async with opened(settings=settings()) as team:
        result = await team.run("do it", master=master, **{"master-summary": again})
        *_, last = contexts(team)
        _, second = contexts(team, "master-summary")
    assert result.status == "completed"
    text = second.current_message.content
    assert "> SUMMARY 1" in text
    assert "part 1" not in text
    assert "> part 3" in text
    assert [m.content.split("\n")[-1][:9] for m in last.history if m.role == "system"][-1] == (
        "SUMMARY 2"
    )


async def test_where_nobody_knows_the_window_what_was_refused_tells_it(opened):
    async with opened(settings=settings(window=None)) as team:
        result = await team.run("do it", master=spoken(20), **{"master-summary": summarise})
        _, second = contexts(team)
    assert result.status == "completed"
    assert second.token_budget.context_window is None
    [started] = team.ledger.events("compaction_started")
    [finished] = team.ledger.events("compaction_finished")
    assert started["window"] is None
    assert finished["tokens_after"] < finished["tokens_before"] / 2 + 1000


async def test_a_conversation_too_long_for_the_next_model_is_compacted_as_it_is_rebuilt(opened):
    async def master(agent):
        if nth(agent) == 1:
            for number in range(30):
                await agent.say(f"note {number}: " + "x" * 900)
            raise failed("broken")
        await agent.complete()

    given = settings(window=None, models={"other": {"max_context": WINDOW}})
    given["defaults"]["fallbacks"] = ["script/other"]
    async with opened(settings=given) as team:
        result = await team.run("do it", master=master, **{"master-summary": summarise})
        _, second = contexts(team)
    assert result.status == "completed"
    assert second.history[1].content.endswith("SUMMARY: half of it is done")
    assert not any("left out" in text for text in notices(team))
    assert turns(team)[1] == ("compaction", "completed", "other")


async def test_a_summary_calls_no_tool_and_asks_nobody(opened):
    async def curious(agent):
        assert agent.host.tools == ()
        assert (await agent.outcome("spawn_child", {"prompt": "x"})).is_error
        await summarise(agent)

    async with opened(settings=settings()) as team:
        result = await team.run("do it", master=spoken(3), **{"master-summary": curious})
    assert result.status == "completed"
    assert len(team.ledger.events("agent_spawned")) == 1


async def test_a_summary_that_never_ends_is_given_up(opened):
    async def silent(agent):
        await agent.hang()

    async with opened(clock=FakeClock(), settings=settings()) as team:
        result = await team.run("do it", master=spoken(3), **{"master-summary": silent})
    assert result.status == "failed"
    assert "did not end within 900 s" in result.error


async def test_a_kill_in_a_compaction_ends_the_agent(opened):
    async def silent(agent):
        await agent.step_ended()
        await agent.hang()

    async with opened(settings=settings()) as team:
        running = team.start("do it", master=spoken(3), **{"master-summary": silent})
        await team.seen("compaction_started")
        await team.manager.kill_agent(team["master"].agent_id)
        result = await running
    assert result.status == "killed"
    assert [turn[0] for turn in turns(team)] == ["normal"]


async def test_a_budget_that_a_summary_uses_up_ends_the_agent(opened):
    async def dear(agent):
        await agent.use(input_tokens=5000, output_tokens=1, total_tokens=5001)
        await agent.say("SUMMARY")

    given = {**settings(), "budgets": {"tokens": 4000}}
    async with opened(settings=given) as team:
        result = await team.run("do it", master=spoken(3), **{"master-summary": dear})
    assert result.status == "failed"
    assert "used up" in result.error
    assert turns(team)[-1][:2] == ("compaction", "completed")


async def test_an_answer_that_was_cut_is_no_summary(opened):
    async def cut(agent):
        await agent.say("SUMM")
        return StopReason.MAX_TOKENS

    async with opened(settings=settings()) as team:
        result = await team.run("do it", master=spoken(3), **{"master-summary": cut})
    assert result.status == "failed"
    assert result.error.endswith("script/small: max_tokens")
