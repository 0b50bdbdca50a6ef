"""Agents talk: questions, answers, prompts, results, progress."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from prsm_core.errors import MessageRoutingError
from tests.engine.harness import failed


async def answer(agent, question, text="42"):
    return await agent.call(
        "respond_to_child",
        child_id=question["from"],
        correlation_id=question["correlation_id"],
        response=text,
    )


async def asker(agent):
    said = await agent.call("ask_parent", question="what?")
    await agent.complete(f"got {said['answer']}")


@pytest.mark.requirement("E46", "E47", "D13")
async def test_a_question_is_answered_by_its_correlation_id(team):
    async def master(agent):
        await agent.spawn(name="a")
        question = await agent.call("wait_for_message")
        assert question == {
            "type": "question",
            "from": team["a"].agent_id,
            "name": "a",
            "correlation_id": question["correlation_id"],
            "text": "what?",
            "progress": [],
        }
        assert await answer(agent, question) == {"delivered": True}
        [result] = await agent.collect()
        assert result["summary"] == "got 42"
        await agent.complete()

    await team.run("do it", master=master, a=asker)
    routed = [(event["kind"], event["agent"]) for event in team.ledger.events("message_routed")]
    assert routed == [("question", "a"), ("answer", "master"), ("task_result", "a")]
    question, reply, _ = team.ledger.events("message_routed")
    assert question["correlation_id"] == reply["correlation_id"]
    assert "waiting_for_parent" in team.ledger.states("a")


async def test_two_questions_are_answered_in_any_order(team):
    async def master(agent):
        await agent.call(
            "spawn_children_parallel",
            children=[{"prompt": "x", "name": "a"}, {"prompt": "y", "name": "b"}],
        )
        questions: list[dict] = []
        while len(questions) < 2:
            questions += await agent.hear()
        first, second = questions
        await answer(agent, second, f"for {second['name']}")
        await answer(agent, first, f"for {first['name']}")
        for result in await agent.collect(2):
            assert result["summary"] == f"got for {result['name']}"
        await agent.complete()

    result = await team.run("do it", master=master, a=asker, b=asker)
    assert result.status == "completed"


@pytest.mark.requirement("E29", "D13", "E49")
async def test_ask_parent_takes_its_answer_and_leaves_an_older_prompt(team):
    async def master(agent):
        await agent.spawn(name="a")
        question = await agent.call("wait_for_message")
        sent = await agent.call("send_child_prompt", child_id="a", prompt="also the docs")
        assert sent == {"delivered": True}
        await answer(agent, question)
        [result] = await agent.collect()
        assert result["summary"] == "42, then also the docs"
        await agent.complete()

    async def a(agent):
        said = await agent.call("ask_parent", question="what?")
        prompt = await agent.call("wait_for_message")
        assert prompt == {
            "type": "user_prompt",
            "from": team["master"].agent_id,
            "name": "master",
            "text": "also the docs",
            "progress": [],
        }
        await agent.complete(f"{said['answer']}, then {prompt['text']}")

    result = await team.run("do it", master=master, a=a)
    assert result.status == "completed"
    left = team.ledger.rows("SELECT message_id FROM inbox WHERE consumed_by IS NULL")
    assert left == []


async def test_every_message_is_consumed_by_one_call(team):
    async def master(agent):
        children = [{"prompt": str(n)} for n in range(5)]
        await agent.call("spawn_children_parallel", children=children)
        await agent.collect(5)
        await agent.complete()

    await team.run("do it", master=master)
    assert team.ledger.one("SELECT count(*) FROM inbox") == 5
    assert team.ledger.one("SELECT count(*) FROM inbox WHERE consumed_by IS NULL") == 0


async def test_a_question_can_be_answered_once(team):
    async def master(agent):
        await agent.spawn(name="a")
        question = await agent.call("wait_for_message")
        known = {"correlation_id": question["correlation_id"], "response": "again"}
        for arguments, code in (
            ({**known, "child_id": "nobody"}, "unknown_agent"),
            ({**known, "child_id": "master"}, "unknown_agent"),
            ({**known, "child_id": "a", "correlation_id": "X"}, "unknown_correlation_id"),
            ({**known, "child_id": "a", "response": ""}, "invalid_arguments"),
        ):
            before = team.ledger.written()
            assert await agent.refused("respond_to_child", **arguments) == code
            assert team.ledger.written() == before
        await answer(agent, question)
        again = await agent.refused("respond_to_child", child_id="a", **known)
        assert again in {"unknown_correlation_id", "agent_ended"}
        await agent.collect()
        assert await agent.refused("respond_to_child", child_id="a", **known) == "agent_ended"
        await agent.complete()

    result = await team.run("do it", master=master, a=asker)
    assert result.status == "completed"
    answers = "SELECT count(*) FROM inbox WHERE type = 'answer'"
    assert team.ledger.one(answers) == 1


async def test_a_sibling_cannot_answer_for_another(team):
    async def master(agent):
        await agent.spawn(name="a")
        await agent.spawn(name="b")
        questions: list[dict] = []
        while len(questions) < 2:
            questions += await agent.hear()
        first, second = questions
        code = await agent.refused(
            "respond_to_child",
            child_id=second["from"],
            correlation_id=first["correlation_id"],
            response="crossed",
        )
        assert code == "unknown_correlation_id"
        for question in questions:
            await answer(agent, question)
        await agent.collect(2)
        await agent.complete()

    result = await team.run("do it", master=master, a=asker, b=asker)
    assert result.status == "completed"


async def test_a_prompt_for_an_ended_child_is_refused_and_not_queued(team):
    async def master(agent):
        await agent.spawn(name="a")
        await agent.collect()
        before = team.ledger.written()
        arguments = {"child_id": "a", "prompt": "more"}
        assert await agent.refused("send_child_prompt", **arguments) == "agent_ended"
        arguments = {"child_id": "zzz", "prompt": "more"}
        assert await agent.refused("send_child_prompt", **arguments) == "unknown_agent"
        assert team.ledger.written() == before
        with pytest.raises(MessageRoutingError, match="has ended"):
            await team.engine.prompting.prompt(team["a"].agent_id, "more", "queue")
        await agent.complete()

    result = await team.run("do it", master=master)
    assert result.status == "completed"


async def test_an_agent_with_a_full_mailbox_is_not_sent_more(team):
    team.engine.router._limit = 1

    async def master(agent):
        await agent.spawn(name="a")
        await team.seen("agent_state_changed", "a", to="running")
        await agent.call("send_child_prompt", child_id="a", prompt="one")
        arguments = {"child_id": "a", "prompt": "two"}
        assert await agent.refused("send_child_prompt", **arguments) == "mailbox_full"
        ready.set()
        await agent.collect()
        await agent.complete()

    ready = asyncio.Event()

    async def a(agent):
        await ready.wait()
        await agent.call("wait_for_message")
        await agent.complete()

    result = await team.run("do it", master=master, a=a)
    assert result.status == "completed"


async def test_a_second_wait_of_one_turn_is_refused(team):
    async def master(agent):
        await agent.spawn(name="a")
        waits = [agent.outcome("wait_for_message", {}, step=False) for _ in range(2)]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(wait) for wait in waits]
        outcomes = [task.result() for task in tasks]
        assert [outcome.is_error for outcome in outcomes] == [False, True]
        assert outcomes[0].data["type"] == "task_result"
        assert outcomes[1].data["error"]["code"] == "already_waiting"
        await agent.complete()

    result = await team.run("do it", master=master)
    assert result.status == "completed"


async def test_a_wait_with_nobody_left_says_so_at_once(team):
    async def master(agent):
        nothing = await agent.call("wait_for_message")
        assert nothing == {"type": "nothing_left", "children": [], "progress": []}
        await agent.call("spawn_child", prompt="x", wait=True)
        nothing = await agent.call("wait_for_message")
        assert nothing["children"] == [{"agent_id": team["w1"].agent_id, "state": "completed"}]
        await agent.complete()

    result = await team.run("do it", master=master)
    assert result.status == "completed"


@pytest.mark.requirement("E48")
@pytest.mark.parametrize("name", ["timeout", "timeout_seconds"])
async def test_a_wait_with_a_timeout_ends_as_pending_and_loses_nothing(fast_team, name):
    async def master(agent):
        await agent.spawn(name="a")
        began = fast_team.clock.now()
        pending = await agent.call("wait_for_message", **{name: 30})
        assert pending.keys() == {"type", "token", "progress"}
        assert pending["type"] == "pending"
        assert fast_team.clock.now() - began == pytest.approx(30, abs=1)
        [result] = await agent.collect()
        assert result["success"]
        await agent.complete()

    async def a(agent):
        await fast_team.clock.sleep(100)
        await agent.complete()

    result = await fast_team.run("do it", master=master, a=a)
    assert result.status == "completed"


async def test_a_failed_child_tells_its_error_and_what_it_said(team):
    async def master(agent):
        await agent.spawn(name="a")
        [result] = await agent.collect()
        assert result == {
            "type": "task_result",
            "from": team["a"].agent_id,
            "name": "a",
            "success": False,
            "summary": "half done",
            "error": "out of luck",
            "progress": [],
        }
        await agent.complete()

    async def a(agent):
        await agent.begin_to_say("half done")
        raise failed("out of luck")

    result = await team.run("do it", master=master, a=a)
    assert result.status == "completed"


async def test_a_persons_prompt_is_read_at_the_next_wait(team):
    async def master(agent):
        await agent.spawn(name="a")
        await team.engine.prompting.prompt(agent.id, "be quick", "queue")
        prompt = await agent.call("wait_for_message")
        assert prompt == {
            "type": "user_prompt",
            "from": "user",
            "text": "be quick",
            "progress": [],
        }
        ready.set()
        await agent.collect()
        await agent.complete()

    ready = asyncio.Event()

    async def a(agent):
        await ready.wait()
        await agent.complete()

    result = await team.run("do it", master=master, a=a)
    assert result.status == "completed"
    [routed] = [e for e in team.ledger.events("message_routed") if e["kind"] == "user_prompt"]
    assert routed["from"] is None


@pytest.mark.requirement("N25")
async def test_what_was_not_read_becomes_the_next_turn(team):
    async def master(agent):
        if agent.turn == 1:
            await team.engine.prompting.prompt(agent.id, "and the docs", "queue")
            await agent.say("done")
            return
        assert agent.text == "The user writes:\n> and the docs"
        await agent.say("done with docs")

    result = await team.run("do it", master=master)
    assert (result.status, result.summary) == ("completed", "done with docs")
    assert team.ledger.one("SELECT consumed_by FROM inbox") == team.ledger.one(
        "SELECT id FROM turns WHERE turn_no = 2"
    )


@pytest.mark.requirement("E55")
async def test_progress_wakes_no_one_and_rides_in_the_next_answer(team):
    async def master(agent):
        await agent.spawn(name="a")
        question = await agent.call("wait_for_message")
        [progress] = question["progress"]
        assert progress == {"from": team["a"].agent_id, "status": "nearly", "percent": 90}
        await answer(agent, question)
        [result] = await agent.collect()
        assert result["progress"] == []
        await agent.complete()

    async def a(agent):
        assert await agent.call("report_progress", status="begun") == {"ok": True}
        assert await agent.call("report_progress", status="nearly", percent=90) == {"ok": True}
        for wrong in ({}, {"status": ""}, {"status": "x", "percent": 101}):
            assert await agent.refused("report_progress", **wrong) == "invalid_arguments"
        await asker(agent)

    result = await team.run("do it", master=master, a=a)
    assert result.status == "completed"
    reported = [(e["status"], e["percent"]) for e in team.ledger.events("progress_reported", "a")]
    assert reported == [("begun", None), ("nearly", 90)]
    assert "progress_update" not in {e["kind"] for e in team.ledger.events("message_routed")}


@pytest.mark.requirement("E15", "E39", "E40", "E41", "E58", "E59", "E60")
async def test_a_parent_sees_its_childrens_states_and_conversations(team):
    async def master(agent):
        assert await agent.call("get_children_status") == {"children": []}
        await agent.spawn("count", name="a")
        await agent.collect()
        status = {
            "agent_id": team["a"].agent_id,
            "name": "a",
            "state": "completed",
            "summary": "counted",
        }
        assert await agent.call("check_child_status", child_id="a") == status
        prefix = team["a"].agent_id[:6]
        assert await agent.call("check_child_status", child_id=prefix) == status
        assert await agent.call("get_children_status") == {"children": [status]}
        summary = await agent.call("get_child_history", child_id="a")
        kinds = [(entry["kind"], entry.get("tool")) for entry in summary["entries"]]
        assert kinds == [
            ("user_message", None),
            ("text", None),
            ("tool_call", "Read"),
            ("tool_call", "task_complete"),
        ]
        full = await agent.call("get_child_history", child_id="a", detail_level="full")
        assert [entry["kind"] for entry in full["entries"]] == [
            "user_message",
            "thinking",
            "text",
            "tool_call",
            "tool_result",
            "tool_call",
            "tool_result",
        ]
        await agent.complete()

    async def a(agent):
        await agent.say("I count", thinking="how?")
        await agent.start_tool("r1", "Read", path="x")
        await agent.end_tool("r1", result="1 2 3")
        await agent.complete("counted")

    result = await team.run("do it", master=master, a=a)
    assert result.status == "completed"


@pytest.mark.parametrize("tool", ["get_child_history", "check_child_status"])
async def test_only_ones_own_children_can_be_looked_at(team, tool):
    async def master(agent):
        await agent.call("spawn_child", prompt="x", name="a", wait=True)
        for child in ("nobody", "nephew", "master", agent.id):
            assert await agent.refused(tool, child_id=child) == "unknown_agent"
        assert await agent.refused(tool) == "invalid_arguments"
        await agent.complete()

    async def a(agent):
        await agent.call("spawn_child", prompt="y", name="nephew", wait=True)
        await agent.complete()

    result = await team.run("do it", master=master, a=a)
    assert result.status == "completed"


def resident_bytes() -> int:
    """Return the memory of this process that is in use now."""
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.requirement("U7")
async def test_ten_thousand_messages_to_one_agent_come_in_order_and_bother_nobody_else(team):
    count = 10_000
    heard: list[int] = []
    sent, other_done = asyncio.Event(), asyncio.Event()

    async def master(agent):
        await agent.spawn(name="a")
        await agent.spawn(name="b")
        child = team["a"].agent_id
        numbers = iter(range(count))
        before = resident_bytes()

        async def send():
            for number in numbers:
                await team.engine.prompting.prompt(child, str(number), "queue")

        await asyncio.gather(*(send() for _ in range(100)))
        assert resident_bytes() - before < 50 * 2**20
        sent.set()
        await agent.collect(2)
        await agent.complete()

    async def a(agent):
        await sent.wait()
        if agent.turn == 1:  # what comes first by waits, the rest turn by turn
            waited = await agent.hear()
            heard.extend(int(message["text"]) for message in waited)
            await agent.say("go on")
            return
        heard.extend(
            int(line.removeprefix("The user writes:\n> ")) for line in agent.text.split("\n\n")
        )
        await agent.say("go on")

    async def b(agent):
        answer = await agent.call("get_children_status")
        assert answer["children"] == []
        other_done.set()
        await agent.complete()

    result = await team.run("do it", master=master, a=a, b=b)
    assert result.status == "completed"
    assert heard == sorted(heard)
    assert heard == list(range(count))
    assert other_done.is_set()
    routed = [e["mid"] for e in team.ledger.events("message_routed") if e["kind"] == "user_prompt"]
    consumed = "SELECT count(*) FROM inbox WHERE type = 'user_prompt' AND consumed_by IS NOT NULL"
    assert (len(set(routed)), team.ledger.one(consumed)) == (count, count)
