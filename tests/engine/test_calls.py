"""Orchestration calls of a turn: each opened and answered once, all ended with the turn."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace
from prsm_testing.fake_clock import FakeClock

from prsm_core.domain.permissions import Deny, PermissionRequest
from prsm_core.domain.writes import CallClosed
from prsm_core.errors import ProviderNotAvailableError, StoreError
from tests.engine.harness import Actor, failed


def in_background(agent, tool, arguments):
    """Start a call that outlives the behaviour; return the future of its outcome."""
    future = asyncio.get_running_loop().create_future()

    async def call():
        future.set_result(await agent.outcome(tool, arguments, step=False))

    agent.session.provider.services.start_soon(call, name="a call")
    return future


async def test_a_call_is_in_the_ledger_with_its_answer_before_the_agent_has_it(team):
    async def master(agent):
        outcome = await agent.outcome("spawn_child", {"prompt": "work"}, call_id="c1")
        assert outcome.data["name"] == "w1"
        rows = team.ledger.rows("SELECT id, status, result, error FROM tool_calls WHERE id = 'c1'")
        assert rows == [("c1", "completed", outcome.text, None)]
        answers.append(outcome.text)
        await agent.collect()
        code = await agent.refused("restart_child", child_id="x", prompt="again")
        assert code == "unknown_agent"
        rows = team.ledger.rows("SELECT status FROM tool_calls WHERE tool_name = 'restart_child'")
        assert rows == [("failed",)]
        await agent.complete()

    answers: list[str] = []

    await team.run("do it", master=master)
    started, finished = (
        team.ledger.events(f"tool_call_{word}", "master")[0] for word in ("started", "finished")
    )
    assert (started["call"], started["tool"], started["orchestration"]) == (
        "c1",
        "spawn_child",
        True,
    )
    assert (finished["status"], finished["result"], finished["error"]) == (
        "completed",
        answers[0],
        None,
    )
    refused = team.ledger.events("tool_call_finished", "master")[2]
    assert (refused["status"], refused["result"]) == ("failed", None)
    assert '"code":"unknown_agent"' in refused["error"]


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("get_children_status", {}),
        ("check_child_status", {"child_id": "w1"}),
        ("get_child_history", {"child_id": "w1"}),
        ("get_budget", {}),
        ("check_child_status", {"child_id": "nobody"}),
        ("no_such_tool", {}),
    ],
)
async def test_a_call_without_effect_is_answered_first_and_written_soon(team, tool, arguments):
    rows = []

    async def master(agent):
        await agent.spawn()
        await agent.collect()
        outcome = await agent.outcome(tool, arguments, call_id="c1")
        query = "SELECT status, coalesce(result, error) FROM tool_calls WHERE id = 'c1'"
        rows.append(team.ledger.rows(query))
        await team.seen("tool_call_finished", "master", call="c1")  # by itself
        rows.append(team.ledger.rows(query))
        status = "failed" if outcome.is_error else "completed"
        rows.append([(status, outcome.text)])
        await agent.complete()

    await team.run("do it", master=master)
    assert rows[0] == []
    assert rows[1] == rows[2]


async def test_a_call_id_that_is_used_twice_in_a_turn_is_told_apart(team):
    async def master(agent):
        for _ in range(3):
            await agent.outcome("get_children_status", {}, call_id="same")
        await agent.complete()

    await team.run("do it", master=master)
    ids = team.ledger.rows("SELECT id FROM tool_calls WHERE tool_name != 'task_complete'")
    assert ids == [("same",), ("same#2",), ("same#3",)]


async def test_calls_and_vendor_tools_of_a_turn_are_numbered_in_order(team):
    async def master(agent):
        await agent.start_tool("v1")
        await agent.end_tool("v1")
        await agent.call("get_children_status")
        await agent.start_tool("v2")
        await agent.end_tool("v2", status="denied")
        await agent.complete()

    await team.run("do it", master=master)
    rows = team.ledger.rows(
        "SELECT tool_name, sequence, status, error FROM tool_calls ORDER BY sequence"
    )
    assert rows == [
        ("Bash", 1, "completed", None),
        ("get_children_status", 2, "completed", None),
        ("Bash", 3, "failed", "denied"),
        ("task_complete", 4, "completed", None),
    ]


async def test_unknown_tools_and_those_of_other_roles_are_refused(as_master):
    async def script(agent, _):
        for tool in ("teleport", "ask_parent", "report_progress", "run_bash", ""):
            outcome = await agent.outcome(tool, {})
            assert outcome.data["error"]["code"] == "unknown_tool"
            assert "wait_for_message" in outcome.data["error"]["hint"]
        await agent.call("spawn_child", prompt="x", role="reviewer", name="r", wait=True)

    async def r(agent):
        for tool in ("spawn_child", "wait_for_message", "get_children_status"):
            assert await agent.refused(tool, prompt="x") == "unknown_tool"
        await agent.complete()

    await as_master(script, team={"r": r})


async def test_an_error_inside_a_handler_is_told_to_the_agent_and_the_user(team):
    async def master(agent):
        team.engine.conversations.get_history = None
        await agent.spawn(name="a")
        await agent.collect()
        outcome = await agent.outcome("get_child_history", {"child_id": "a"})
        assert outcome.data["error"]["code"] == "internal"
        assert "get_child_history failed inside prsm: TypeError" in outcome.text
        await agent.complete()

    result = await team.run("do it", master=master)
    assert result.status == "completed"
    [notice] = team.ledger.events("notice")
    assert (notice["level"], "inside prsm" in notice["text"]) == ("error", True)


async def test_a_message_the_ledger_refuses_is_an_error_of_the_call_alone(team):
    """The parent ends in the moment its child asks: the question finds no one."""

    async def master(agent):
        await agent.spawn(name="a")
        ready.set()
        await agent.collect()
        await agent.complete()

    async def a(agent):
        await ready.wait()
        parent = team["master"]
        team.engine.router.register_agent("ghost")
        message = team.manager.steps.message

        def to_nobody(*arguments, **fields):
            return replace(message(*arguments, **fields), target="ghost")

        team.manager.steps.message = to_nobody
        assert await agent.refused("ask_parent", question="?") == "unknown_agent"
        team.manager.steps.message = message
        assert parent.questions == {}
        await agent.complete()

    ready = asyncio.Event()
    result = await team.run("do it", master=master, a=a)
    assert result.status == "completed"
    calls = "SELECT status, error FROM tool_calls WHERE tool_name = 'ask_parent'"
    [(status, error)] = team.ledger.rows(calls)
    assert (status, '"unknown_agent"' in error) == ("failed", True)


async def test_an_agent_whose_wait_has_an_answer_that_is_refused_runs_all_the_same(team):
    async def master(agent):
        await agent.spawn(name="a")
        steps = team.manager.steps
        commit = steps.commit

        async def refusing(step, **how):
            if step.agent_id != team["master"].agent_id or step.find(CallClosed) is None:
                return await commit(step, **how)
            steps.commit = commit
            raise StoreError("it cannot be written", code="unfit")

        steps.commit = refusing
        outcome = await agent.outcome("wait_for_message", {})
        assert outcome.data["error"]["code"] == "turn_over"
        assert (await agent.call("check_child_status", child_id="a"))["name"] == "a"
        await agent.complete()

    async def a(agent):
        await team.seen("agent_state_changed", "master", to="waiting_for_child")
        await agent.complete()

    await team.run("do it", master=master, a=a)
    told = team.ledger.events("agent_state_changed", "master")
    assert [each["to"] for each in told] == [
        "starting",
        "running",
        "waiting_for_child",
        "running",
        "completed",
    ]


async def test_a_call_that_waits_is_cancelled_when_its_turn_dies(opened):
    outcomes = []

    async def master(agent):
        await agent.spawn(name="a")
        question = await agent.call("wait_for_message")
        died.set()
        second = await agent.call("wait_for_message")
        assert second["text"] == "again?"
        stale = {"child_id": "a", "correlation_id": question["correlation_id"], "response": "x"}
        assert await agent.refused("respond_to_child", **stale) == "unknown_correlation_id"
        await agent.call(
            "respond_to_child",
            child_id="a",
            correlation_id=second["correlation_id"],
            response="yes",
        )
        await agent.collect()
        await agent.complete()

    async def a(agent):
        if agent.turn == 1:
            outcomes.append(in_background(agent, "ask_parent", {"question": "first?"}))
            await died.wait()
            raise failed("the stream broke", retryable=True)
        assert (await agent.call("ask_parent", question="again?")) == {"answer": "yes"}
        await agent.complete()

    died = asyncio.Event()
    async with opened(clock=FakeClock()) as team:
        result = await team.run("do it", master=master, a=a)
        assert result.status == "completed"
        [outcome] = outcomes
        assert (await outcome).data["error"]["code"] == "turn_over"
    calls = "SELECT status FROM tool_calls WHERE tool_name = 'ask_parent' ORDER BY started_at"
    assert team.ledger.rows(calls) == [("failed",), ("completed",)]
    ended = [e for e in team.ledger.events("tool_call_finished", "a") if e["status"] == "failed"]
    assert "this turn is over" in ended[0]["error"]


async def test_a_wait_whose_turn_dies_gives_back_what_it_was_about_to_take(opened):
    """A message is consumed with the answer that carries it, or not at all."""

    async def master(agent):
        if agent.turn == 1:
            await agent.spawn(name="a")
            await agent.spawn(name="b")
            in_background(agent, "wait_for_message", {})
            await asyncio.sleep(0)
            await agent.step_ended()
            await team.seen("agent_state_changed", "a", to="completed")
            raise failed("the stream broke", retryable=True)
        results = {result["name"] for result in await agent.collect(2 - len(taken()))}
        assert results | taken() == {"a", "b"}
        await agent.complete()

    def taken():
        answers = team.ledger.rows(
            "SELECT a.name FROM inbox AS m JOIN agents AS a ON a.agent_id = m.source"
            " JOIN tool_calls AS c ON c.id = m.consumed_by"
            " WHERE c.turn_id = (SELECT id FROM turns WHERE turn_no = 1 AND role = 'manager')"
        )
        return {name for (name,) in answers}

    async def b(agent):
        await team.seen("agent_state_changed", "a", to="completed")
        await agent.complete()

    async with opened(clock=FakeClock()) as team:
        result = await team.run("do it", master=master, b=b)
        assert result.status == "completed"


async def test_a_call_after_the_turns_end_has_no_effect(opened):
    async def master(agent):
        if agent.turn == 1:
            agents.append(agent)
            raise failed("broken", retryable=True, after=5.0)
        await agent.complete()

    agents: list[Actor] = []
    async with opened(clock=FakeClock(autojump=False)) as team:
        running = team.start("do it", master=master)
        await team.seen("turn_finished")
        outcome = await agents[0].host.call_tool("spawn_child", {"prompt": "x"})
        assert outcome.data["error"]["code"] == "turn_over"
        while not running.done():
            await team.clock.advance(1)
        assert (await running).status == "completed"
        assert len(team.manager.roster.records()) == 1


async def test_task_complete_cuts_off_the_other_calls_of_its_turn(team):
    async def master(agent):
        await agent.spawn(name="a")
        await agent.collect()
        await agent.complete()

    async def a(agent):
        asking = in_background(agent, "ask_parent", {"question": "?"})
        await team.seen("tool_call_started", "a", tool="ask_parent")
        await agent.outcome("task_complete", {"summary": "never mind"}, step=False)
        assert (await asking).data["error"]["code"] == "turn_over"

    async def master_ignores(agent):
        await agent.spawn(name="a")
        while (message := await agent.call("wait_for_message"))["type"] != "task_result":
            assert message["type"] == "question"
        await agent.complete()

    result = await team.run("do it", master=master_ignores, a=a)
    assert result.status == "completed"


async def test_a_provider_that_drops_a_call_cancels_it(team):
    async def master(agent):
        await agent.spawn(name="a")
        task = asyncio.ensure_future(agent.outcome("wait_for_message", {}))
        await team.seen("agent_state_changed", "master", to="waiting_for_child")
        task.cancel()
        await asyncio.wait({task})
        release.set()
        await agent.collect()
        await agent.complete()

    async def a(agent):
        await release.wait()
        await agent.complete()

    release = asyncio.Event()
    result = await team.run("do it", master=master, a=a)
    assert result.status == "completed"


async def test_calls_of_one_turn_run_side_by_side(as_master):
    async def script(agent, _):
        wanted = [{"prompt": "x", "name": name, "wait": True} for name in "abc"]
        async with asyncio.TaskGroup() as group:
            calls = [
                group.create_task(agent.outcome("spawn_child", arguments, step=False))
                for arguments in wanted
            ]
            await asyncio.sleep(0)
            await agent.step_ended()
        assert [call.result().data["result"]["name"] for call in calls] == list("abc")

    async def meet(agent):
        await barrier.wait()
        await agent.complete()

    barrier = asyncio.Barrier(3)
    team = await as_master(script, team=dict.fromkeys("abc", meet))
    assert team.ledger.states("master").count("waiting_for_child") == 1


async def test_vendor_names_of_orchestration_tools_are_recognised(team):
    async def master(agent):
        for name in ("spawn_child", "mcp__prsm__spawn_child", "mcp_prsm_spawn_child"):
            assert agent.host.is_orchestration(name)
        for name in ("Bash", "mcp__prsm__ask_parent", "spawn", "mcp__jira__create_issue"):
            assert not agent.host.is_orchestration(name)
        with pytest.raises(ProviderNotAvailableError, match="no MCP bridge"):
            agent.host.mcp_endpoint()
        await agent.complete()

    assert (await team.run("do it", master=master)).status == "completed"


async def test_an_agent_that_has_ended_is_permitted_nothing(team):
    async def master(agent):
        await agent.complete()
        request = PermissionRequest(agent_id=agent.id, tool="Bash", command="echo x")
        assert isinstance(await agent.host.authorize(request), Deny)

    assert (await team.run("do it", master=master)).status == "completed"


@pytest.mark.parametrize("at_once", [True, False])
async def test_the_next_answer_tells_what_two_calls_of_one_id_came_to(team, at_once):
    """Real vendors show the answer of the one as that of the other, or leave one out."""

    async def master(agent):
        calls = [("get_children_status", {}), ("check_child_status", {"child_id": "x"})]
        made = [agent.outcome(*one, call_id="same", step=False) for one in calls]
        answers = await asyncio.gather(*made) if at_once else [await one for one in made]
        assert not any("notice" in answer.data for answer in answers)
        await agent.step_ended()
        budget = await agent.call("get_budget")
        told = budget["notice"]
        for answer, (tool, _) in zip(answers, calls, strict=True):
            assert tool in told
            assert answer.text in told.replace("\n> ", "\n")
        assert "notice" not in await agent.call("get_budget")
        await agent.complete()

    result = await team.run("do it", master=master)
    assert result.status == "completed"
    ids = team.ledger.rows("SELECT id FROM tool_calls ORDER BY sequence LIMIT 2")
    assert ids == [("same",), ("same#2",)]


async def test_an_id_that_is_used_again_in_a_later_response_confuses_nobody(team):
    async def master(agent):
        for _ in range(3):
            answer = await agent.outcome("get_budget", {}, call_id="call_0")
            assert "notice" not in answer.data
            await agent.step_ended()
        await agent.complete()

    await team.run("do it", master=master)
