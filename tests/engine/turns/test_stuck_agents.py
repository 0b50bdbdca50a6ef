"""Agents that go round in circles on the real engine: warned, told, then failed."""

from __future__ import annotations

import pytest


async def look(agent, times, result="same", tool="Read"):
    """Make a vendor's call of the same kind again and again."""
    for _ in range(times):
        agent.memory["calls"] = number = agent.memory.get("calls", 0) + 1
        await agent.start_tool(f"v{number}", tool, path="x.py")
        await agent.end_tool(f"v{number}", result=result)


def notices(team, agent):
    return [event["text"] for event in team.ledger.events("notice", agent)]


async def parent(agent):
    await agent.spawn(name="a")
    [agent.memory["result"]] = await agent.collect()
    await agent.complete()


@pytest.mark.requirement("U17")
async def test_an_agent_that_repeats_itself_is_warned_and_told_in_its_next_answer(team):
    async def a(agent):
        await look(agent, 4)
        answer = await agent.call("report_progress", status="still here")
        assert "repeat: the same call of Read" in answer["notice"]
        assert "notice" not in await agent.call("report_progress", status="going on")
        await agent.complete()

    result = await team.run("do it", master=parent, a=a)
    assert result.status == "completed"
    [notice] = notices(team, "a")
    assert "a may be stuck" in notice
    assert "repeat" in notice
    stored = "SELECT result FROM tool_calls WHERE tool_name = 'report_progress' ORDER BY sequence"
    assert '"notice"' in team.ledger.rows(stored)[0][0]


@pytest.mark.requirement("U17")
async def test_an_agent_that_goes_on_repeating_fails_and_its_parent_is_told(team):
    async def a(agent):
        await agent.say("I look at it")
        await look(agent, 8)
        await agent.hang()

    result = await team.run("do it", master=parent, a=a)
    assert result.status == "completed"
    assert team.ledger.states("a")[-1] == "failed"
    failed = team["a"].result
    assert (failed.error_kind, failed.summary) == ("stuck", "I look at it")
    assert "repeat" in failed.error
    told = team.provider.memory[team["master"].agent_id]["result"]
    assert (told["success"], told["error"]) == (False, failed.error)


async def test_orchestration_calls_count_like_the_vendor_s_own(team):
    async def a(agent):
        for _ in range(3):
            answer = await agent.call("report_progress", status="working")
            assert "notice" not in answer
        assert "repeat" in (await agent.call("report_progress", status="working"))["notice"]
        for _ in range(3):
            await agent.call("report_progress", status="working")
        await agent.outcome("report_progress", {"status": "working"})
        await agent.hang()

    await team.run("do it", master=parent, a=a)
    assert team["a"].result.error_kind == "stuck"


async def test_a_refused_call_that_is_made_again_and_again_is_a_repeat(team):
    async def a(agent):
        for _ in range(3):
            await agent.refused("run_bash", command="rm x")
        outcome = await agent.outcome("run_bash", {"command": "rm x"})
        assert outcome.is_error
        assert outcome.data["error"]["code"] == "permission_denied"
        assert "repeat" in outcome.data["notice"]
        await agent.complete()

    await team.run("do it", master=parent, a=a)


@pytest.mark.requirement("U17")
async def test_two_calls_by_turns_are_an_alternation(team):
    async def a(agent):
        for _ in range(6):
            await look(agent, 1, tool="Read")
            await look(agent, 1, tool="Edit")
        await agent.hang()

    await team.run("do it", master=parent, a=a)
    assert "alternation: Read and Edit" in team["a"].result.error
    assert len(notices(team, "a")) == 1


@pytest.mark.requirement("U17")
async def test_one_who_only_talks_is_in_a_monologue(team):
    async def a(agent):
        for number in range(100):
            await agent.say(f"thought {number}")
        await agent.hang()

    await team.run("do it", master=parent, a=a)
    assert "monologue: 100 messages" in team["a"].result.error
    assert "thought 99" in team["a"].result.summary


@pytest.mark.requirement("U17")
async def test_the_same_message_over_turns_is_a_monologue_and_the_next_prompt_tells_it(opened):
    async with opened(settings={"stuck": {"texts": 2}}) as team:

        async def master(agent):
            if agent.turn == 1:
                await agent.spawn(name="a")
            elif agent.turn == 2:
                assert "You may be stuck (monologue" in agent.text
                return await agent.complete()
            await agent.say("I wait.")
            await agent.say("I wait.")
            return None

        result = await team.run("do it", master=master)
    assert result.status == "completed"


async def test_what_others_say_makes_the_same_words_new(team):
    async def master(agent):
        if agent.turn == 1:
            for number in range(7):
                await agent.spawn(name=f"w{number}")
        if all(team[f"w{number}"].has_ended for number in range(7)):
            return await agent.complete()
        await agent.say("Noted, I wait for the others.")
        return None

    result = await team.run("do it", master=master)
    assert result.status == "completed"
    assert notices(team, "master") == []


async def test_waiting_for_a_child_by_looking_again_and_again_is_given_more_time(opened):
    async with opened(settings={"stuck": {"polls": 12}}) as team:

        async def master(agent):
            await agent.spawn(name="a")
            for _ in range(11):
                answer = await agent.call("wait_for_message", timeout=0.001)
                assert answer["type"] == "pending"
                assert "notice" not in answer
            assert "repeat" in (await agent.call("wait_for_message", timeout=0.001))["notice"]
            await agent.complete()

        async def a(agent):
            await agent.hang()

        run = team.start("do it", master=master, a=a)
        await team.seen("notice", "master", level="warning")
        await team.engine.manager.kill_agent(team["a"].agent_id)
        assert (await run).status == "completed"


async def test_nobody_looks_where_it_is_switched_off(opened):
    async with opened(settings={"stuck": {"enabled": False}}) as team:

        async def master(agent):
            await look(agent, 20)
            await agent.complete()

        result = await team.run("do it", master=master)
        assert (result.status, notices(team, "master")) == ("completed", [])


async def test_a_stuck_master_fails_the_run_and_takes_its_children_with_it(team):
    async def master(agent):
        await agent.spawn(name="a")
        await look(agent, 8)
        await agent.hang()

    async def a(agent):
        await agent.hang()

    result = await team.run("do it", master=master, a=a)
    assert (result.status, result.exit_code) == ("failed", 1)
    assert "stuck" in result.error
    assert team.ledger.states("a")[-1] == "killed"


async def test_a_new_life_counts_from_the_beginning(team):
    async def master(agent):
        await agent.spawn(name="a")
        await agent.collect()
        await agent.call("restart_child", child_id="a", prompt="work")
        await agent.collect()
        await agent.complete()

    async def a(agent):
        await look(agent, 3)
        await agent.complete()

    await team.run("do it", master=master, a=a)
    assert notices(team, "a") == []


async def test_what_comes_after_task_complete_is_no_monologue(team):
    async def master(agent):
        await agent.complete()
        for _ in range(8):  # "the same message", were the agent still at work
            await agent.say("bye")

    result = await team.run("do it", master=master)
    assert (result.status, notices(team, "master")) == ("completed", [])
