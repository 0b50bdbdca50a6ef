"""Parking: who only waits gives the process of its session to others, and goes on later."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from prsm_files.shadow.opening import Shadows
from prsm_testing.fake_clock import FakeClock

from prsm_core.engine.providers.residents import PATIENCE_SECONDS
from prsm_core.interfaces.provider import ProviderCapabilities
from tests.engine.deaths import die, go_on, run_to_death
from tests.engine.harness import DEADLINE
from tests.engine.residents import asks_a_person, hangs, leads, once


def turns_of(team):
    """Return how many turns each agent has begun."""
    return Counter(event["agent"] for event in team.ledger.events("turn_started"))


def messages_of(team):
    """Return how many messages of each kind were sent."""
    return dict(team.ledger.rows("SELECT type, count(*) FROM inbox GROUP BY type"))


async def waits_for_its_child(agent):
    """Have a child work within the call that spawns it."""
    made = await once(agent, "spawn", "spawn_child", prompt="work", name="w1", wait=True)
    await once(agent, "done", "task_complete", summary=f"all of {made['result']['summary']}")


async def advises(agent):
    """Answer the question of a child, then be told its result."""
    await once(agent, "spawn", "spawn_child", prompt="work", name="w1")
    asked = await once(agent, "asked", "wait_for_message")
    answer = {"child_id": asked["from"], "correlation_id": asked["correlation_id"]}
    await once(agent, "told", "respond_to_child", response="blue", **answer)
    found = await once(agent, "wait", "wait_for_message")
    await once(agent, "done", "task_complete", summary=f"all of {found['summary']}")


async def works(agent):
    await once(agent, "done", "task_complete", summary="it")


async def asks(agent):
    """Ask the parent before it completes."""
    answer = await once(agent, "ask", "ask_parent", question="which colour?")
    await once(agent, "done", "task_complete", summary=answer["answer"])


@pytest.mark.parametrize("leader", [leads, waits_for_its_child])
async def test_a_parent_that_waits_makes_room_for_its_child(parked, leader):
    async with parked(1) as team:
        result = await team.run(master=leader, w1=works)
        assert (result.status, result.summary) == ("completed", "all of it")
        assert (team.provider.crowd, team.provider.parked) == (1, ["master"])
    assert turns_of(team) == {"master": 1, "w1": 1}
    assert messages_of(team) == {"task_result": 1}


async def test_parent_and_child_make_room_for_each_other(parked):
    """Each answer comes once, to the call that waits for it, in the one turn that each has."""
    async with parked(1) as team:
        result = await team.run(master=advises, w1=asks)
        assert (result.status, result.summary) == ("completed", "all of blue")
        assert (team.provider.crowd, team.provider.parked) == (1, ["master", "w1", "master"])
    assert turns_of(team) == {"master": 1, "w1": 1}
    assert messages_of(team) == {"question": 1, "answer": 1, "task_result": 1}
    assert team.ledger.rows("SELECT DISTINCT incarnation FROM agents") == [(1,)]
    finished = Counter(
        (event["agent"], event["call"]) for event in team.ledger.events("tool_call_finished")
    )
    assert set(finished.values()) == {1}


async def test_with_room_for_all_nobody_is_parked(parked):
    async with parked(2) as team:
        assert (await team.run(master=advises, w1=asks)).summary == "all of blue"
        assert (team.provider.crowd, team.provider.parked) == (2, [])


async def test_the_git_that_looks_after_files_takes_no_agents_place(parked, tmp_path):
    shadows = Shadows(state=tmp_path / "state", data=tmp_path / "data")
    async with parked(1, shadows=shadows) as team:
        assert await team.engine.files.keeper.attempt(
            team.workspace, lambda shadow: shadow.folder, ""
        )
        assert (await team.run(master=leads, w1=works)).status == "completed"
        assert team.provider.crowd == 1


async def test_of_those_who_wait_the_longest_is_parked(parked):
    async def middle(agent):
        await once(agent, "spawn", "spawn_child", prompt="work", name="w2")
        found = await once(agent, "wait", "wait_for_message")
        await once(agent, "done", "task_complete", summary=found["summary"])

    async with parked(2) as team:
        result = await team.run(master=leads, w1=middle, w2=works)
        assert result.summary == "all of it"
        assert (team.provider.crowd, team.provider.parked) == (2, ["master"])


@pytest.mark.parametrize("level", ["native", "rebuild"])
async def test_what_no_thread_holds_is_told(parked, level):
    """A vendor that cannot be given an answer in its place is told it by a prompt, once."""

    async def listens(agent):
        if agent.turn == 1:
            await agent.call("spawn_child", prompt="work", name="w1")
            await agent.call("wait_for_message")
        await agent.complete("heard")

    async with parked(1, level=level) as team:
        result = await team.run(master=listens, w1=works)
        assert (result.status, result.summary) == ("completed", "heard")
        assert team.provider.parked == ["master"]
        [_, again] = team.provider.contexts["master"]
    said = [message.content for message in (*again.history, again.current_message) if message]
    assert sum('"summary":"it"' in text for text in said) == 1


async def test_a_person_answers_while_the_one_who_asked_is_parked(parked):
    async def waits_for_news(agent):
        await team.seen("notice", "master", level="info")
        await once(agent, "done", "task_complete", summary="it")

    async with parked(1, interactive=True) as team:
        run = team.start(master=asks_a_person, w1=waits_for_news)
        request = (await team.seen("question_asked", "master")).data["request"]
        await team.seen("notice", "master", level="info")
        assert [one.request_id for one in team.engine.requests.waiting()] == [request]
        answer = {"choices": ["blue"], "text": None}
        assert await team.engine.requests.give(request, "question", answer)
        assert not await team.engine.requests.give(request, "question", answer)
        assert (await run).summary == "blue it"
        assert team.provider.parked[0] == "master"
    assert len(team.ledger.events("question_asked")) == 1
    [answered] = team.ledger.events("question_answered")
    assert answered["answer"] == answer


async def test_an_answer_that_comes_while_the_session_closes_is_not_lost(parked):
    """Whoever asked is not there just then: it is given once the call is made again."""

    given: list[asyncio.Task[bool]] = []

    async def answers_meanwhile(name):
        if not given:
            answer = {"choices": ["red"], "text": None}
            [request] = team.engine.requests.waiting()
            giving = team.engine.requests.give(request.request_id, "question", answer)
            given.append(asyncio.get_running_loop().create_task(giving))

    async with parked(1, interactive=True, on_park=answers_meanwhile) as team:
        result = await team.run(master=asks_a_person, w1=works)
        assert result.summary == "red it"
        assert await given[0]
    assert len(team.ledger.events("question_answered")) == 1


async def test_a_question_of_a_parked_agent_is_left_to_the_next_engine(parked):
    """Nobody is told that an answer was taken which nobody writes any more."""

    async def shuts_down(name):
        shutting.append(team.engine.start_soon(team.engine.shutdown(), name="shutdown"))

    shutting: list[asyncio.Task[None]] = []
    async with parked(1, interactive=True, on_park=shuts_down, check=False) as team:
        result = await team.run(master=asks_a_person, w1=works)
        assert result.status == "interrupted"
        await asyncio.wait(shutting)
        assert team.engine.requests.waiting() == ()
    assert team.ledger.one("SELECT state FROM requests") == "open"


async def test_a_message_that_comes_while_the_session_closes_is_read_once(parked):
    prompted: list[str] = []

    async def is_prompted(name):
        if not prompted:
            prompted.append(name)
            prompting = team.engine.prompting.prompt(team[name].agent_id, "hurry", "queue")
            assert await prompting == "queued"

    async def heeds(agent):
        await once(agent, "spawn", "spawn_child", prompt="work", name="w1")
        first = await once(agent, "first", "wait_for_message")
        assert (first["type"], first["text"]) == ("user_prompt", "hurry")
        found = await once(agent, "wait", "wait_for_message")
        await once(agent, "done", "task_complete", summary=found["summary"])

    async with parked(1, on_park=is_prompted) as team:
        assert (await team.run(master=heeds, w1=works)).summary == "it"
        assert prompted == ["master"]
    assert messages_of(team) == {"task_result": 1, "user_prompt": 1}


async def test_two_who_want_room_at_once_both_get_it(parked):
    """One takes the place of who waits; the other is patient until somebody ends."""

    async def leads_two(agent):
        children = [{"prompt": "a", "name": "w1"}, {"prompt": "b", "name": "w2"}]
        await once(agent, "spawn", "spawn_children_parallel", children=children)
        first = await once(agent, "first", "wait_for_message")
        second = await once(agent, "second", "wait_for_message")
        await once(agent, "done", "task_complete", summary=first["summary"] + second["summary"])

    async with parked(1) as team:
        result = await team.run(master=leads_two, w1=works, w2=works)
        assert (result.status, result.summary) == ("completed", "itit")
        assert team.provider.crowd == 1
    assert messages_of(team) == {"task_result": 2}


@pytest.mark.parametrize("slots", [1, 2])
async def test_slots_and_processes_do_not_wait_for_each_other(parked, slots):
    async with parked(1, engine={"max_concurrent_agents": slots}) as team:
        assert (await team.run(master=advises, w1=asks)).summary == "all of blue"


async def test_where_nobody_waits_there_is_an_error_in_the_end(parked):
    async def works_beside(agent):
        await agent.call("spawn_child", prompt="work", name="w1")
        await team.seen("agent_state_changed", "w1", to="failed")
        found = await agent.call("wait_for_message")
        await agent.complete(found["error"])

    clock = FakeClock()
    async with parked(1, clock=clock, engine={"max_concurrent_agents": 2}) as team:
        result = await team.run(master=works_beside)
        assert clock.now() >= PATIENCE_SECONDS
        assert team.provider.parked == []
    assert result.summary == "1 processes run, which is max_resident_processes"


async def test_processes_that_belong_to_no_session_make_no_room(parked):
    """Then there is the error at once."""
    async with parked(1) as team:
        team.provider.capabilities = ProviderCapabilities(enforcement="pre_tool", resume="call")
        result = await team.run(master=leads, w1=works)
    [failed] = team.ledger.events("agent_state_changed", "w1")[-1:]
    assert (failed["to"], failed["reason"]) == (
        "failed",
        "1 processes run, which is max_resident_processes",
    )
    assert result.status == "completed"


async def test_a_turn_that_uses_a_tool_of_its_own_is_not_parked(parked):
    """Nobody could say after that whether it ran."""

    async def uses(agent):
        await agent.call("spawn_child", prompt="work", name="w1")
        await agent.start_tool("v1")
        await agent.outcome("wait_for_message", {})
        await agent.end_tool("v1")
        await agent.complete("used")

    async with parked(1, clock=FakeClock()) as team:
        result = await team.run(master=uses)
        assert team.provider.parked == []
    assert result.summary == "used"
    assert team.ledger.states("w1")[-1] == "failed"


async def test_what_was_used_before_it_was_parked_counts(parked):
    async def uses(agent):
        if agent.turn == 1:
            await agent.use(cost_usd=0.5, input_tokens=100)
        else:
            await agent.use(cost_usd=0.25, input_tokens=10)
        await leads(agent)

    async with parked(1) as team:
        result = await team.run(master=uses, w1=works)
        assert team.provider.parked == ["master"]
    assert result.usage.input_tokens == 110
    [turn] = team.ledger.events("turn_finished", "master")
    assert turn["usage"]["input_tokens"] == 110


async def reached_without_session(team):
    """Wait until the master is parked, and its calls are made again."""
    await team.seen("notice", "master", level="info")
    async with asyncio.timeout(DEADLINE):
        while not team.session("master").turn.calls.open:
            await team.settled()


async def test_a_parked_agent_is_killed(parked):
    async with parked(1) as team:
        run = team.start(master=leads, w1=hangs)
        await reached_without_session(team)
        await team.manager.kill_agent(team["master"].agent_id)
        assert (await run).status == "killed"
        assert team.provider.resident == {}
    assert team.ledger.states("w1")[-1] == "killed"


async def test_an_agent_is_killed_while_its_session_is_closed(parked):
    async def kills(name):
        team.engine.start_soon(team.manager.kill_agent(team[name].agent_id), name="kill")
        await team.seen("agent_state_changed", name, to="killed")

    async with parked(1, on_park=kills) as team:
        assert (await team.run(master=leads, w1=hangs)).status == "killed"


@pytest.mark.parametrize("meanwhile", [True, False], ids=["while-it-closes", "later"])
async def test_an_interrupt_ends_a_parked_turn_at_once(parked, meanwhile):
    """No provider is there that could be given time to end it."""

    async def asks_twice(agent):
        if agent.turn == 1:
            await once(agent, "spawn", "spawn_child", prompt="work", name="w2")
            await once(agent, "ask", "ask_parent", question="which?")
        assert "stop that" in agent.text
        await agent.complete("stopped")

    async def interrupts(name):
        if not meanwhile or name != "w1":
            return
        prompt = team.engine.prompting.prompt(team[name].agent_id, "stop that", "interrupt")
        assert await prompt == "interrupting"

    async def leads_and_waits(agent):
        await once(agent, "spawn", "spawn_child", prompt="work", name="w1")
        found = {"type": "question"}
        for number in range(5):
            if found["type"] != "task_result":
                found = await once(agent, f"wait{number}", "wait_for_message")
        await once(agent, "done", "task_complete", summary=found["summary"])

    async with parked(1, clock=FakeClock(), on_park=interrupts) as team:
        run = team.start(master=leads_and_waits, w1=asks_twice, w2=hangs)
        await team.seen("notice", "w1", level="info")
        began = team.clock.now()
        if not meanwhile:
            prompt = team.engine.prompting.prompt(team["w1"].agent_id, "stop that", "interrupt")
            assert await prompt == "interrupting"
        ended = await team.seen("turn_finished", "w1")
        assert ended.data["stop_reason"] == "aborted"
        assert team.clock.now() - began < 1.0
        await team.manager.kill_agent(team["w2"].agent_id)
        assert (await run).summary == "stopped"


async def test_what_a_person_says_to_a_parked_agent_is_queued(parked):
    async def listens(agent):
        await once(agent, "spawn", "spawn_child", prompt="work", name="w1")
        said = await once(agent, "said", "wait_for_message")
        assert said["text"] == "by the way"
        found = await once(agent, "wait", "wait_for_message")
        await once(agent, "done", "task_complete", summary=found["summary"])

    may_end = asyncio.Event()

    async def works_on(agent):
        await may_end.wait()
        await once(agent, "done", "task_complete", summary="it")

    async with parked(1, steers=True) as team:
        run = team.start(master=listens, w1=works_on)
        await reached_without_session(team)
        prompting = team.engine.prompting.prompt(team["master"].agent_id, "by the way", "inject")
        assert await prompting == "queued"
        await team.seen("tool_call_finished", "master", call="said")
        assert team.provider.crowd == 1  # it has its answer, and waits for the place
        may_end.set()
        assert (await run).summary == "it"


async def test_who_waits_between_two_turns_makes_room(parked):
    async def ends_its_turn(agent):
        if agent.turn == 1:
            await once(agent, "spawn", "spawn_child", prompt="work", name="w1")
            return
        assert "it" in agent.text
        await agent.complete("told")

    async with parked(1) as team:
        result = await team.run(master=ends_its_turn, w1=works)
        assert (result.status, result.summary) == ("completed", "told")
        assert team.provider.crowd == 1
    assert turns_of(team) == {"master": 2, "w1": 1}


async def test_who_has_completed_makes_room_for_its_children(parked):
    async def completes(agent):
        await once(agent, "spawn", "spawn_child", prompt="work", name="w1")
        await once(agent, "done", "task_complete", summary="first")

    async with parked(1) as team:
        result = await team.run(master=completes, w1=works)
        assert (result.status, result.summary) == ("completed", "first")
        assert team.provider.crowd == 1
        assert len(team.provider.requests["master"]) == 1
    assert team.ledger.states("w1")[-1] == "completed"


async def test_an_engine_that_dies_while_one_is_parked_is_gone_on_with(parked):
    """Nothing of it is in the ledger: the resume has a parked turn like any other."""

    async def dies(agent):
        await reached_without_session(team)
        await die(team)

    async with parked(1, check=False) as team:
        await run_to_death(team, master=advises, w1=dies)
        memory = team.provider.memory
    async with parked(1, memory=memory) as team:
        result = await go_on(team, master=advises, w1=asks)
        assert result.summary == "all of blue"
        assert team.provider.crowd == 1
    assert messages_of(team) == {"question": 1, "answer": 1, "task_result": 1}


async def test_a_parked_agent_that_is_restarted_later_begins_anew(parked):
    """The life that has ended takes nothing of the next one away."""

    async def leads_twice(agent):
        await once(agent, "spawn", "spawn_child", prompt="work", name="w1")
        asked = await once(agent, "asked", "wait_for_message")
        answer = {"child_id": asked["from"], "correlation_id": asked["correlation_id"]}
        await once(agent, "told", "respond_to_child", response="blue", **answer)
        await once(agent, "first", "wait_for_message")
        again = await once(agent, "again", "restart_child", child_id="w1", prompt="more", wait=True)
        await once(agent, "done", "task_complete", summary=again["result"]["summary"])

    async def asks_once(agent):
        first = agent.memory.setdefault("first", agent.session.host)
        if first is agent.session.host:
            await asks(agent)
        else:
            await agent.complete("anew")

    async with parked(1) as team:
        assert (await team.run(master=leads_twice, w1=asks_once)).summary == "anew"
        assert team.provider.crowd == 1
