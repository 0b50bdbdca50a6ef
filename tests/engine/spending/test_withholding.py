"""While a budget ends a turn nothing is given to its model: no call, no answer, no permission.

What would be given leads to one response more, which is paid for and cut off.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from prsm_testing.fake_clock import FakeClock

from prsm_core.domain.permissions import Deny, PermissionRequest, Question
from prsm_core.engine.turns.limits import STUCK_SECONDS
from tests.engine.spending.test_stopping import budget, lead_on, work_on

pytestmark = pytest.mark.requirement("U14")


async def spend_all(agent):
    """Use more than a budget of a thousand tokens allows, and be done."""
    await agent.use(total_tokens=1500)
    await agent.complete("all spent")


async def test_an_answer_with_which_the_model_would_go_on_is_not_given(opened):
    """Not even one that comes at once, before the provider has told that its step has ended."""
    answers: list[Any] = []

    async def master(agent):
        await agent.use(total_tokens=1500)
        answers.append(await agent.outcome("get_budget", {}, step=False))

    async with opened(**budget(tokens=1000)) as team:
        result = await team.run(master=master)
    assert (result.status, answers) == ("failed", [])
    assert team.ledger.rows("SELECT status FROM tool_calls") == [("completed",)]


async def test_a_turn_whose_answer_is_not_given_ends_although_its_provider_tells_no_step(opened):
    answers: list[Any] = []

    async def master(agent):
        await agent.outcome("spawn_child", {"name": "spender", "prompt": "work"}, step=False)
        await team.seen("budget_exceeded")
        answers.append(await agent.outcome("get_budget", {}, step=False))

    async with opened(**budget(tokens=1000)) as team:
        result = await team.run(master=master, spender=spend_all)
    assert (result.status, answers) == ("failed", [])


async def test_an_answer_beside_which_others_are_awaited_is_given(opened):
    answers: list[Any] = []

    async def master(agent):
        await agent.spawn(name="spender")
        await agent.start_tool("v", command="make")
        await team.seen("budget_exceeded")
        answers.append(await agent.outcome("get_budget", {}, step=False))
        await agent.end_tool("v")
        await agent.hang()

    async with opened(**budget(tokens=1000)) as team:
        result = await team.run(master=master, spender=spend_all)
    assert result.status == "failed"
    assert len(answers) == 1


async def test_a_result_is_taken_although_the_budget_is_used_up(opened):
    async def master(agent):
        await agent.use(total_tokens=1500)
        answer = await agent.outcome("task_complete", {"summary": " "}, step=False)
        assert answer.is_error
        await agent.complete("done after all")

    async with opened(**budget(tokens=1000)) as team:
        result = await team.run(master=master)
    assert (result.status, result.summary) == ("completed", "done after all")


async def test_a_program_that_is_answered_asks_no_model(opened):
    async def master(agent):
        child = {"name": "spender", "prompt": "work"}
        await agent.outcome("spawn_child", child, step=False)
        await team.seen("budget_exceeded")
        for _ in range(3):
            assert not (await agent.outcome("get_budget", {}, step=False)).is_error
        await agent.complete("counted")

    async with opened(is_program=True, **budget(tokens=1000)) as team:
        result = await team.run(master=master, spender=spend_all)
    assert (result.status, result.summary) == ("completed", "counted"), result


async def test_nothing_is_begun_while_the_turn_ends(opened):
    """The vendor asks for a command, and for a child, before it has heard of its interrupt."""
    answers: list[Any] = []

    async def master(agent):
        await agent.use(total_tokens=1500)
        await agent.start_tool("v", command="echo hi")
        request = PermissionRequest(
            agent_id=agent.id, tool="Bash", arguments={}, cwd="/", command="echo hi"
        )
        async with asyncio.TaskGroup() as group:
            asked = group.create_task(agent.host.authorize(request))
            spawned = group.create_task(agent.host.call_tool("spawn_child", {"prompt": "x"}))
        answers.extend([asked.result(), spawned.result()])

    async with opened(**budget(tokens=1000)) as team:
        team.provider.obeys = False
        result = await team.run(master=master)
    assert result.status == "failed"
    assert list(team.manager.roster.names().values()) == ["master"]
    assert not answers or isinstance(answers[0], Deny)


async def test_the_answer_of_a_call_that_runs_while_the_turn_ends_leads_to_no_response(opened):
    """The vendor has not heard of its interrupt by the time its call is answered."""
    responses: Counter[str] = Counter()

    async def master(agent):
        await lead_on(agent, responses, 600)

    async with opened(clock=FakeClock(), **budget(tokens=1000)) as team:
        team.provider.obeys = False
        result = await team.run(master=master)
    assert (result.status, result.summary) == ("failed", "response 1\nresponse 2")
    assert responses["master"] == 2
    [turn] = team.ledger.events("turn_finished")
    assert turn["usage"]["total_tokens"] == 1200
    calls = [one["status"] for one in team.ledger.events("tool_call_finished")]
    assert calls == ["completed", "completed"], "what was done is told, though nobody hears of it"


async def test_an_answer_that_comes_after_a_sibling_has_used_up_the_budget_is_not_given(opened):
    answers: list[Any] = []

    async def master(agent):
        await agent.spawn(name="asker")
        await agent.spawn(name="spender")
        await agent.collect(2)

    async def asker(agent):
        answers.append(await agent.call("ask_user", question="which?"))

    async def spender(agent):
        await team.seen("question_asked")
        await work_on(agent, Counter(), 1500)

    async with opened(interactive=True, **budget(tokens=1000)) as team:
        running = team.start(master=master, asker=asker, spender=spender)
        asked = await team.seen("question_asked")
        await team.seen("budget_exceeded")
        because = {"choices": [], "text": "because"}
        assert team.engine.requests.resolve(asked.data["request"], "question", because)
        result = await running
    assert result.status == "failed"
    assert team["asker"].result.error_kind == "budget_exceeded"
    assert answers == []


async def test_no_client_is_told_to_wait_longer_for_a_call_of_a_turn_that_ends(opened):
    answers: list[Any] = []

    async def master(agent):
        await agent.use(total_tokens=1500)
        answers.append(await agent.call_within(STUCK_SECONDS / 2, "ask_user", question="which?"))

    async with opened(clock=FakeClock(), interactive=True, **budget(tokens=1000)) as team:
        team.provider.obeys = False
        result = await team.run(master=master)
    assert result.status == "failed"
    assert answers == []


async def test_what_a_person_answers_while_the_turn_ends_is_not_told_to_the_vendor(opened):
    sessions, answers = [], []

    async def master(agent):
        sessions.append(agent.session)
        request = PermissionRequest(
            agent_id=agent.id, tool="Bash", arguments={}, cwd="/", command="make"
        )

        async def tell(answer):
            answers.append(await answer)

        await agent.start_tool("v", command="make")
        async with asyncio.TaskGroup() as group:
            group.create_task(tell(agent.host.authorize(request)))
            group.create_task(tell(agent.host.ask_user(Question(text="which?"))))
            permission = await team.seen("permission_requested")
            question = await team.seen("question_asked")
            await agent.use(total_tokens=1500)
            await agent.step_ended()  # the budget ends the turn here at the latest
            resolve = team.engine.requests.resolve
            assert resolve(permission.data["request"], "permission", {"verdict": "once"})
            because = {"choices": [], "text": "because"}
            assert resolve(question.data["request"], "question", because)

    async with opened(interactive=True, **budget(tokens=1000)) as team:
        team.provider.obeys = False
        running = team.start(master=master)
        await team.seen("permission_resolved", by="user")
        await team.seen("question_answered", by="user")
        await team.settled()
        assert answers == []
        team.provider.obeys = True
        await sessions[0].interrupt()
        assert (await running).status == "failed"
    assert answers == []
