"""Messages come together: one wait takes all there are, or the results of all children."""

from __future__ import annotations

import asyncio

import pytest

from prsm_core.domain.tools import encode_data
from prsm_core.engine.tools.communication import ROOM
from tests.engine.deaths import die, go_on, run_to_death
from tests.engine.test_messages import answer, asker
from tests.engine.test_peers import writing

__all__ = ["writing"]

pytestmark = pytest.mark.requirement("U32", "E48")

READ_BY = "SELECT consumed_by, count(*) FROM inbox GROUP BY consumed_by"


async def spawn_all(agent, *names):
    await agent.call(
        "spawn_children_parallel", children=[{"prompt": "x", "name": name} for name in names]
    )


async def until_ended(team, *names):
    for name in names:
        await team.seen("agent_state_changed", name, to="completed")


def says(answer):
    """Return who says what, in the order of an answer."""
    return [(one["type"], one.get("name")) for one in (answer, *answer.get("others", ()))]


def waits_of_masters(team):
    """Return how often the master became one that waits for all results."""
    moves = team.ledger.events("agent_state_changed")
    return [move["waiting_on"] for move in moves if move["waiting_on"] == "all results"]


async def test_a_wait_takes_all_messages_that_are_there_by_one_step(team):
    async def master(agent):
        await spawn_all(agent, "a", "b", "c")
        await until_ended(team, "a", "b", "c")
        answer = await agent.call("wait_for_message")
        assert sorted(says(answer)) == [("task_result", name) for name in "abc"]
        assert answer["summary"].endswith("is done")
        assert "unread" not in answer
        assert (await agent.call("wait_for_message"))["type"] == "nothing_left"
        await agent.complete()

    await team.run("do it", master=master)
    [(call, count)] = team.ledger.rows(READ_BY)
    assert (count, bool(call)) == (3, True)
    assert team.ledger.one("SELECT count(DISTINCT ended) FROM inbox") == 1


async def test_a_wait_for_all_ends_with_the_last_child_and_has_all_results(team):
    go_on = asyncio.Event()

    async def master(agent):
        await spawn_all(agent, "a", "b", "c")
        waiting = asyncio.ensure_future(agent.call("wait_for_message", all=True))
        await until_ended(team, "a", "c")
        await team.settled()
        assert not waiting.done()
        assert team["master"].waiting_on == "all results"
        go_on.set()
        assert says(await waiting)[-1] == ("task_result", "b")
        assert len(says(await waiting)) == 3
        await agent.complete()

    async def b(agent):
        await go_on.wait()
        await agent.complete("b is done")

    await team.run("do it", master=master, b=b)
    assert len(waits_of_masters(team)) == 1, "a result that comes moves nobody"


async def test_a_question_ends_a_wait_for_all_and_comes_before_the_results(team):
    async def master(agent):
        await spawn_all(agent, "a", "b")
        await until_ended(team, "b")
        first = await agent.call("wait_for_message", all=True)
        assert says(first) == [("question", "a"), ("task_result", "b")]
        await answer(agent, first)
        assert says(await agent.call("wait_for_message", all=True)) == [("task_result", "a")]
        await agent.complete()

    result = await team.run("do it", master=master, a=asker)
    assert result.status == "completed"


async def test_a_persons_prompt_ends_a_wait_for_all(team):
    is_told = asyncio.Event()

    async def master(agent):
        await spawn_all(agent, "a")
        waiting = asyncio.ensure_future(agent.call("wait_for_message", all=True))
        await team.seen("agent_state_changed", "master", to="waiting_for_child")
        await team.engine.prompting.prompt(team["master"].agent_id, "faster", "queue")
        assert (await waiting)["text"] == "faster"
        is_told.set()
        assert len(await agent.hear(all=True)) == 1
        await agent.complete()

    async def a(agent):
        await is_told.wait()
        await agent.complete()

    assert (await team.run("do it", master=master, a=a)).status == "completed"


async def test_what_a_peer_writes_ends_a_wait_for_all(writing):
    is_told = asyncio.Event()
    async with writing() as team:

        async def master(agent):
            await spawn_all(agent, "a", "b")
            assert len(await agent.hear(all=True)) == 2
            await agent.complete()

        async def a(agent):
            await team.seen("agent_state_changed", "b", to="waiting_for_child")
            await agent.call("message_send", to="b", text="go on")
            await agent.complete()

        async def b(agent):
            await agent.spawn(name="slow")
            assert (await agent.call("wait_for_message", all=True))["text"] == "go on"
            is_told.set()
            await agent.collect()
            await agent.complete()

        async def slow(agent):
            await is_told.wait()
            await agent.complete()

        assert (await team.run("do it", master=master, a=a, b=b, slow=slow)).status == "completed"


@pytest.mark.parametrize("arguments", [{}, {"all": True}])
async def test_what_has_no_room_in_an_answer_stays_unread(team, arguments):
    names = [f"c{n}" for n in range(5)]

    async def master(agent):
        await spawn_all(agent, *names)
        await until_ended(team, *names)
        taken = []
        for unread in (3, 1, 0):
            answer = await agent.call("wait_for_message", **arguments)
            assert answer.get("unread", 0) == unread
            assert len(encode_data(answer).encode()) <= ROOM + 100
            taken += says(answer)
        assert sorted(taken) == [("task_result", name) for name in names]
        await agent.complete()

    async def long(agent):
        await agent.complete("ü" * (ROOM // 5))

    result = await team.run("do it", master=master, **dict.fromkeys(names, long))
    assert result.status == "completed"
    assert team.ledger.one("SELECT count(DISTINCT consumed_by) FROM inbox") == 3


async def test_a_question_without_room_is_not_one_that_the_model_has_seen(team):
    """Else the next turn would repeat it as one that was forgotten."""

    async def master(agent):
        if agent.turn == 1:
            await spawn_all(agent, "a", "b")
            await team.seen("agent_state_changed", "a", to="waiting_for_parent")
            await team.seen("agent_state_changed", "b", to="waiting_for_parent")
            first = await agent.call("wait_for_message")
            assert first["unread"] == 1
            await answer(agent, first)
            return
        assert "You have not answered" not in agent.text
        [about] = team["master"].questions
        name = team["master"].questions[about].message.source
        await answer(agent, {"from": name, "correlation_id": about})
        await agent.collect(2 - agent.text.count("has completed its task"))
        await agent.complete()

    async def asks(agent):
        await agent.call("ask_parent", question="?" * (ROOM * 2 // 3))
        await agent.complete()

    assert (await team.run("do it", master=master, a=asks, b=asks)).status == "completed"


async def test_a_wait_for_all_that_has_had_its_time_gives_what_there_is(fast_team):
    team = fast_team

    async def master(agent):
        await spawn_all(agent, "a", "b")
        told = await agent.call("wait_for_message", all=True, timeout=5)
        assert says(told) == [("task_result", "a")]
        told = await agent.call("wait_for_message", all=True, timeout=5)
        assert told["type"] == "pending"
        again = await agent.call("wait_for_message", token=told["token"], all=True)
        assert says(again) == [("task_result", "b")]
        await agent.complete()

    async def b(agent):
        await team.clock.sleep(60)
        await agent.complete()

    assert (await team.run("do it", master=master, b=b)).status == "completed"


async def test_a_wait_for_all_results_without_children_ends_at_once(team):
    async def master(agent):
        await agent.spawn(name="a")
        assert len(await agent.hear(all=True)) == 1
        assert (await agent.call("wait_for_message", all=True))["type"] == "nothing_left"
        await agent.complete()

    async def a(agent):
        told = await agent.call("wait_for_message", all=True)
        assert told == {"type": "nothing_left", "children": [], "progress": []}
        await agent.complete()

    assert (await team.run("do it", master=master, a=a)).status == "completed"
    assert not team.ledger.events("deadlock_detected")


async def test_a_child_that_waits_for_who_waits_for_all_is_in_a_knot_once_no_other_lives(team):
    async def master(agent):
        await spawn_all(agent, "a", "b")
        results = {one["name"]: one for one in await agent.hear(all=True)}
        assert results["a"]["error"].startswith("deadlock: ")
        assert results["b"]["success"]
        await agent.complete()

    async def a(agent):
        await agent.call("wait_for_message")

    async def b(agent):
        await team.seen("agent_state_changed", "a", to="waiting_for_child")
        await team.seen("agent_state_changed", "master", to="waiting_for_child")
        await team.settled()
        assert not team.ledger.events("deadlock_detected"), "it might still ask"
        await agent.complete()

    assert (await team.run("do it", master=master, a=a, b=b)).status == "completed"
    [knot] = team.ledger.events("deadlock_detected")
    assert (knot["action"], knot["victim"]) == ("victim", team["a"].agent_id)


async def test_a_forgotten_question_is_shown_to_who_waits_for_all(team):
    async def master(agent):
        await spawn_all(agent, "a", "b")
        await until_ended(team, "b")
        first, *_ = await agent.hear(all=True)
        again = await agent.call("wait_for_message", all=True)
        assert (again["type"], again["reminder"]) == ("question", True)
        assert again["correlation_id"] == first["correlation_id"]
        await answer(agent, again)
        assert len(await agent.hear(all=True)) == 1
        await agent.complete()

    assert (await team.run("do it", master=master, a=asker)).status == "completed"
    [knot] = team.ledger.events("deadlock_detected")
    assert knot["action"] == "reminder"


@pytest.mark.parametrize("arguments", [{}, {"all": True}])
async def test_all_of_an_answer_is_undone_together_where_its_session_is_lost(opened, arguments):
    names = ("a", "b", "c")

    async def master(agent):
        await spawn_all(agent, *names)
        await until_ended(team, *names)
        assert len(await agent.hear(**arguments)) == len(names)
        await die(team)

    async def mastered(agent):
        told = await agent.hear(**arguments)
        assert sorted(one["name"] for one in told) == list(names)
        await agent.complete()

    async with opened(check=False) as team:
        await run_to_death(team, master=master)
    async with opened() as again:
        assert (await go_on(again, master=mastered)).status == "completed"
    [undone] = again.ledger.events("receives_undone")
    assert len(undone["calls"]) == 1
    assert again.ledger.one("SELECT count(*) FROM inbox WHERE consumed_by IS NULL") == 0
    assert again.ledger.one("SELECT count(DISTINCT consumed_by) FROM inbox") == 1
