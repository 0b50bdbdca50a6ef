"""An ended agent lives again: same identity, a new incarnation, nothing left of the old one."""

from __future__ import annotations

import asyncio

import pytest
from prsm_testing.fake_clock import FakeClock

from prsm_core.domain.writes import AgentRestarted
from prsm_core.errors import FencedError, ProviderNotAvailableError
from tests.engine.deaths import dies_after, go_on, run_to_death
from tests.engine.harness import NOT_ENDED, complete, failed


@pytest.mark.requirement("E10", "E52")
async def test_a_restart_keeps_the_identity_and_begins_a_new_life(as_master):
    async def script(agent, team):
        await agent.spawn("one", name="a", tools=["Read"])
        await agent.collect()
        before = team["a"].descriptor
        answer = await agent.call("restart_child", child_id="a", prompt="two")
        assert answer.pop("state") in NOT_ENDED
        assert answer == {"agent_id": before.agent_id, "name": "a", "reused": True}
        [result] = await agent.collect()
        assert result["summary"] == "life 2: two"
        after = team["a"].descriptor
        assert after.incarnation == before.incarnation + 1 == 2
        for name in ("parent_id", "role", "model", "tools", "cwd", "grant", "mode"):
            assert getattr(after, name) == getattr(before, name)

    async def a(agent):
        await agent.complete(f"life {agent.turn}: {agent.text}")

    team = await as_master(script, team={"a": a}, gives_tokens=True)
    first, second = team.provider.requests["a"]
    assert (first.resume_token, second.resume_token) == (None, "thread-a")
    assert team.provider.contexts["a"][1].history == ()
    assert team.ledger.one("SELECT next_turn FROM agents WHERE name = 'a'") == 3


@pytest.mark.requirement("E10")
async def test_a_restart_begins_with_a_clock_and_reports_of_its_own(as_master):
    """The agent of a life that was all but used up has all of its time again."""

    async def script(agent, team):
        await agent.call("spawn_child", prompt="one", name="a", wait=True)
        first = team["a"]
        assert first.reasoning_used == pytest.approx(60, abs=1)
        assert first.progress.keys() == {team["b"].agent_id}, "what it was not told any more"
        await agent.call("restart_child", child_id="a", prompt="two", wait=True)
        assert team["a"].reasoning_used == pytest.approx(60, abs=1)

    async def a(agent):
        await agent.session.provider.services.clock.sleep(60)
        if agent.text == "one":
            await agent.spawn(name="b")
            await reported.wait()
            await agent.complete()
            return
        answer = await agent.call("wait_for_message", timeout=1)
        assert (answer["type"], answer["progress"]) == ("pending", [])
        await agent.complete()

    async def b(agent):
        await agent.call("report_progress", status="half", percent=50)
        reported.set()
        await agent.complete()

    reported = asyncio.Event()
    limits = {"agent_timeout_seconds": 100.0}
    team = await as_master(script, team={"a": a, "b": b}, clock=FakeClock(), engine=limits)
    assert team["a"].result.success


@pytest.mark.requirement("E10")
async def test_nothing_that_a_life_has_come_to_is_held_against_the_next(opened):
    """Its end, what it repeated, and how often it was tried again are of the life before."""

    async def master(agent):
        answer = await agent.call("spawn_child", prompt="one", name="a", wait=True)
        record = team["a"]
        assert (answer["state"], answer["result"]["error"]) == ("failed", "no luck")
        assert (record.result.success, record.is_condemned, record.has_ended) == (False, True, True)
        answer = await agent.call("restart_child", child_id="a", prompt="two", wait=True)
        assert answer["result"]["success"]
        await agent.complete()

    async def a(agent):
        record, number = team["a"], agent.turn
        for call in ("x", "y", "z"):  # in both lives together it would be stuck
            await agent.start_tool(f"{call}{number}", "Read", path="x.py")
            await agent.end_tool(f"{call}{number}")
        if number == 1:
            raise failed("busy", retryable=True)
        if number == 2:
            raise failed("no luck")
        assert (record.result, record.is_condemned, record.has_ended) == (None, False, False)
        if number == 3:
            raise failed("busy", retryable=True)
        await agent.complete()

    async with opened(clock=FakeClock()) as team:
        assert (await team.run("do it", master=master, a=a)).status == "completed"
    attempts = [event["attempt"] for event in team.ledger.events("retry_scheduled", "a")]
    assert attempts == [1, 1]


@pytest.mark.requirement("E10")
@pytest.mark.parametrize("gives_tokens", [True, False])
async def test_a_child_that_is_used_again_knows_nothing_of_the_lives_before(
    as_master, gives_tokens
):
    """Neither by the vendor's thread nor from the ledger; the life after it knows of it alone."""

    async def script(agent, _):
        await agent.call("spawn_child", prompt="one", wait=True)
        answer = await agent.call("spawn_child", prompt="two", wait=True)
        assert (answer["name"], answer["reused"]) == ("w1", True)
        await agent.call("restart_child", child_id="w1", prompt="three", wait=True)

    async def w1(agent):
        agent.session.resume_token = f"thread-{agent.turn}" if gives_tokens else None
        await agent.say(f"said in turn {agent.turn}")
        await agent.complete()

    team = await as_master(script, team={"w1": w1})
    requests, contexts = team.provider.requests["w1"], team.provider.contexts["w1"]
    threads = [request.resume_token for request in requests]
    assert threads == ([None, None, "thread-2"] if gives_tokens else [None] * 3)
    assert [context.current_message.content for context in contexts] == ["one", "two", "three"]
    assert (contexts[0].history, contexts[1].history) == ((), ())
    told = [message.content for message in contexts[2].history][:2]
    assert told == ([] if gives_tokens else ["two", "said in turn 2"])
    assert len(team.ledger.events("conversation_begun", "w1")) == 1


async def test_a_fresh_life_is_fresh_to_the_engine_that_goes_on_with_it(opened):
    async def master(agent):
        if agent.turn == 1:
            await agent.call("spawn_child", prompt="one", wait=True)
            await agent.call("spawn_child", prompt="two", wait=True)
        await agent.complete()

    async with opened(check=False, gives_tokens=True) as team:
        dies_after(team, AgentRestarted)
        await run_to_death(team, master=master)
    async with opened(gives_tokens=True) as again:
        assert (await go_on(again, master=master)).status == "completed"
    [request], [context] = again.provider.requests["w1"], again.provider.contexts["w1"]
    assert (request.resume_token, context.history) == (None, ())
    assert context.current_message.content == "two"


async def test_a_restart_without_a_vendors_thread_is_given_the_conversation(as_master):
    async def script(agent, _):
        await agent.call("spawn_child", prompt="one", wait=True)
        await agent.call("restart_child", child_id="w1", prompt="two", wait=True)

    async def w1(agent):
        await agent.say(f"said in turn {agent.turn}")
        await agent.complete()

    team = await as_master(script, team={"w1": w1})
    history = [(m.role, m.content) for m in team.provider.contexts["w1"][1].history]
    assert history[:2] == [("user", "one"), ("assistant", "said in turn 1")]
    [(role, called)] = history[2:]
    assert (role, called.partition(" with ")[0]) == ("assistant", '[I called "task_complete"')
    assert team.provider.contexts["w1"][1].current_message.content == "two"


async def test_a_thread_that_the_vendor_has_lost_is_rebuilt_from_the_ledger(as_master):
    def refuse(request):
        if request.resume_token is not None:
            raise ProviderNotAvailableError("no such thread", code="resume_failed")

    async def script(agent, _):
        await agent.call("spawn_child", prompt="one", wait=True)
        answer = await agent.call("restart_child", child_id="w1", prompt="two", wait=True)
        assert answer["result"]["success"]

    team = await as_master(script, gives_tokens=True, refuse=refuse)
    first, *called = [m.content for m in team.provider.contexts["w1"][1].history]
    assert first == "one"
    assert len(called) == 1
    notices = team.ledger.events("notice", "w1")
    assert [notice["text"] for notice in notices] == [
        "the conversation is rebuilt from the ledger: no such thread"
    ]


@pytest.mark.requirement("E52")
async def test_a_running_or_foreign_child_is_not_restarted(as_master):
    async def script(agent, team):
        await agent.spawn(name="a")
        question = await agent.call("wait_for_message")
        before = team.ledger.written()
        arguments = {"child_id": "a", "prompt": "again"}
        assert await agent.refused("restart_child", **arguments) == "still_running"
        arguments = {"child_id": "nephew", "prompt": "again"}  # a child of a, and ended
        assert await agent.refused("restart_child", **arguments) == "unknown_agent"
        assert team.ledger.written() == before
        await agent.call(
            "respond_to_child",
            child_id="a",
            correlation_id=question["correlation_id"],
            response="go",
        )
        await agent.collect()

    async def a(agent):
        await agent.call("spawn_child", prompt="x", name="nephew", wait=True)
        await agent.call("ask_parent", question="go on?")
        await agent.complete()

    await as_master(script, team={"a": a})


async def test_a_killed_child_is_restarted_by_way_of_pending(as_master):
    async def script(agent, team):
        await agent.spawn(name="a")
        await team.manager.kill_agent(team["a"].agent_id)
        await agent.collect()
        assert await agent.call("restart_child", child_id="a", prompt="again", wait=True)

    async def a(agent):
        if agent.text != "again":
            await agent.hang()
        await agent.complete()

    team = await as_master(script, team={"a": a})
    assert team.ledger.states("a")[-5:] == ["killed", "pending", "starting", "running", "completed"]


@pytest.mark.requirement("E52")
async def test_a_restart_that_waits_does_not_take_the_result_of_the_life_before(as_master):
    async def script(agent, team):
        await agent.spawn("one", name="a")
        await team.seen("agent_state_changed", "a", to="completed")
        answer = await agent.call("restart_child", child_id="a", prompt="two", wait=True)
        assert answer["result"]["summary"] == "did two"
        [unread] = await agent.collect()
        assert unread["summary"] == "did one"

    async def a(agent):
        await agent.complete(f"did {agent.text}")

    await as_master(script, team={"a": a})


async def test_messages_to_the_life_before_are_gone(as_master):
    teams = []

    async def script(agent, team):
        teams.append(team)
        await agent.spawn(name="a")
        await team.seen("agent_state_changed", "a", to="running")
        await agent.call("send_child_prompt", child_id="a", prompt="for the first life")
        await team.manager.kill_agent(team["a"].agent_id)
        await agent.collect()
        await agent.call("restart_child", child_id="a", prompt="again", wait=True)

    async def a(agent):
        if agent.text != "again":
            await agent.hang()
        assert teams[0].engine.router.unread(agent.id) == ()
        await agent.complete()

    team = await as_master(script, team={"a": a})
    assert len(team.provider.contexts["a"]) == 2


async def test_a_failed_child_can_be_given_another_chance(as_master):
    async def script(agent, _):
        answer = await agent.call("spawn_child", prompt="one", wait=True)
        assert (answer["state"], answer["result"]["error"]) == ("failed", "no luck")
        answer = await agent.call("restart_child", child_id="w1", prompt="two", wait=True)
        assert answer["result"]["success"]

    async def w1(agent):
        if agent.text == "one":
            raise failed("no luck")
        await complete(agent)

    await as_master(script, team={"w1": w1})


async def test_two_restarts_at_once_give_one_new_life(as_master):
    async def script(agent, team):
        await agent.spawn(name="a")
        await agent.collect()
        arguments = {"child_id": "a", "prompt": "again"}
        async with asyncio.TaskGroup() as group:
            calls = [group.create_task(agent.outcome("restart_child", arguments)) for _ in "12"]
        outcomes = sorted((call.result() for call in calls), key=lambda o: o.is_error)
        assert [outcome.is_error for outcome in outcomes] == [False, True]
        assert outcomes[1].data["error"]["code"] == "still_running"
        await agent.collect()

    team = await as_master(script)
    assert team["a"].descriptor.incarnation == 2


async def test_a_restart_goes_on_although_the_turn_that_asked_for_it_dies(opened):
    async def master(agent):
        if agent.turn == 1:
            await agent.spawn(name="a")
            await agent.collect()
            arguments = {"child_id": "a", "prompt": "again"}
            agent.session.provider.services.start_soon(
                agent.outcome, "restart_child", arguments, name="a call that dies"
            )
            await asyncio.sleep(0)
            raise failed("gone", retryable=True)
        if team["a"].incarnation == 2:
            await agent.collect()
        await agent.complete()

    async with opened(clock=FakeClock()) as team:
        result = await team.run("do it", master=master)
        assert result.status == "completed"
        assert all(record.has_ended for record in team.manager.roster.records())


async def test_a_step_of_an_older_life_is_refused(team):
    await team.run()
    record = team["master"]
    step = team.manager.steps.build(record)
    await team.engine.run_continuation("more", record.agent_id)
    with pytest.raises(FencedError, match="incarnation 1"):
        await team.store.commit(step)
