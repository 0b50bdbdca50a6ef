"""What an engine knew of its agents beside their rows, the engine that goes on knows as well."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from prsm_testing.fake_clock import FakeClock

from prsm_core.domain.agents import UNCHECKED, AgentState
from prsm_core.domain.turns import ErrorKind, StopReason
from prsm_core.domain.writes import AgentEnded, AgentsResumed, ModelSwitched, TurnOpened
from prsm_core.errors import ProviderNotAvailableError, StoreError
from prsm_core.store.codec import decode
from tests.engine.deaths import DIED, die, dies_after, dies_at, go_on, run_to_death
from tests.engine.harness import Actor, failed
from tests.engine.mcp_programs import server_program

FALLBACKS = {
    "defaults": {
        "provider": "script",
        "model": "first",
        "fallbacks": ["script/second", "script/third"],
    },
    "model_registry": {name: {"max_context": 1000} for name in ("second", "third")},
}


def told(team, kind, name, agent=None):
    return [event[name] for event in team.ledger.events(kind, agent)]


async def fails(_):
    raise failed("busy", retryable=True)


async def test_failures_in_a_row_are_counted_over_a_death(opened):
    clock = FakeClock()

    async def master(agent):
        if agent.turn == 3:
            await die(team)
        await fails(agent)

    async with opened(check=False, clock=clock) as team:
        await run_to_death(team, master=master)
    async with opened(clock=clock) as again:
        assert (await go_on(again, master=fails)).status == "failed"
    assert told(again, "retry_scheduled", "attempt") == [1, 2, 3, 4, 5]


async def test_a_failure_that_its_engine_had_not_dealt_with_is_dealt_with_once(opened):
    clock = FakeClock()
    async with opened(check=False, clock=clock) as team:

        async def master(agent):
            if agent.turn == 2:
                dies_at(team, TurnOpened)
            await fails(agent)

        await run_to_death(team, master=master)
    async with opened(clock=clock) as again:
        assert (await go_on(again, master=fails)).status == "failed"
    assert told(again, "retry_scheduled", "attempt") == [1, 2, 2, 3, 4, 5]
    assert len(told(again, "turn_started", "n")) == 6


async def test_a_model_that_has_failed_for_good_is_not_tried_again_after_a_death(opened):
    async def gives_up(_):
        raise failed("no", kind=ErrorKind.MODEL_ERROR)

    async with opened(check=False, settings=FALLBACKS) as team:
        dies_after(team, ModelSwitched)
        await run_to_death(team, master=gives_up)
    async with opened(settings=FALLBACKS) as again:
        assert (await go_on(again, master=gives_up)).status == "failed"
    switches = [text for text in told(again, "notice", "text") if "takes over" in text]
    assert [text.split()[-3] for text in switches] == ["script/second", "script/third"]
    assert len(told(again, "turn_started", "n")) == 3


async def test_what_a_gate_has_refused_before_a_death_counts(opened):
    options = {"engine": {"gate_refusals": 1}, "settings": {"gates": {"g": {"command": "false"}}}}

    async def master(agent):
        (team.workspace / "made.py").write_text("x")
        assert await agent.refused("task_complete", summary="s", artifacts=["made.py"])
        await die(team)

    async def mastered(agent):
        await agent.complete(artifacts=["made.py"])

    async with opened(check=False, **options) as team:
        await run_to_death(team, master=master)
    async with opened(**options) as again:
        assert (await go_on(again, master=mastered)).status == "completed"


async def test_what_an_agent_made_before_a_death_is_its_own_work(opened):
    class Later(FakeClock):
        def time(self):
            return super().time() + 2e9

    async def master(_):
        (team.workspace / "made.py").write_text("x")
        await die(team)

    async def mastered(agent):
        answer = await agent.call("task_complete", summary="s", artifacts=["made.py"])
        assert answer["evidence_gaps"] == [UNCHECKED], "the file is one that it has changed"

    async with opened(check=False, clock=FakeClock()) as team:
        await run_to_death(team, master=master)
    async with opened(clock=Later()) as again:
        assert (await go_on(again, master=mastered)).status == "completed"


async def look(agent, times, first=1):
    """Make a vendor's call of the same kind again and again."""
    for number in range(first, first + times):
        await agent.start_tool(f"v{number}", "Read", path="x.py")
        await agent.end_tool(f"v{number}", result="same")


async def test_what_an_agent_repeats_is_counted_over_a_death(opened):
    async def master(agent):
        await look(agent, 3)
        await die(team)

    async def mastered(agent):
        await look(agent, 1, first=4)
        await agent.complete()

    async with opened(check=False) as team:
        await run_to_death(team, master=master)
    async with opened() as again:
        assert (await go_on(again, master=mastered)).status == "completed"
    [warning] = [text for text in told(again, "notice", "text", "master") if "stuck" in text]
    assert "the same call of Read with the same result 4 times in a row" in warning


async def test_progress_that_a_parent_was_not_told_is_told_after_a_death_and_once(opened):
    heard, told_first = [], asyncio.Event()

    async def master(agent):
        await agent.spawn(name="a")
        await team.seen("progress_reported", "a", status="first")
        heard.append((await agent.call("wait_for_message", timeout=0.01))["progress"])
        told_first.set()
        await team.seen("progress_reported", "a", status="second")
        await die(team)

    async def a(agent):
        await agent.call("report_progress", status="first")
        await told_first.wait()
        await agent.call("report_progress", status="second")
        await agent.hang()

    async def mastered(agent):
        heard.append((await agent.call("wait_for_message", timeout=0.01))["progress"])
        heard.append((await agent.call("wait_for_message", timeout=0.01))["progress"])
        await agent.complete()

    async with opened(check=False) as team:
        await run_to_death(team, master=master, a=a)
    async with opened() as again:
        again.provider.behaviours["a"] = Actor.hang
        running = again.engine.start_soon(go_on(again, master=mastered), name="run")
        await again.seen("agent_state_changed", "master", to="waiting_for_child")
        await again.manager.kill_agent(again["a"].agent_id)
        await running
    assert [[one["status"] for one in each] for each in heard] == [["first"], ["second"], []]


async def test_a_question_that_was_shown_once_more_before_a_death_is_not_shown_again(opened):
    async def master(agent):
        if agent.turn == 1:
            await agent.spawn(name="a")
            assert (await agent.call("wait_for_message"))["type"] == "question"
            return StopReason.END_TURN
        assert "which?" in agent.text
        return await die(team)

    async def a(agent):
        assert await agent.refused("ask_parent", question="which?") == "parent_did_not_answer"
        await agent.complete()

    async def mastered(agent):
        if agent.turn == 1:
            return StopReason.END_TURN
        return await agent.complete()

    async with opened(check=False) as team:
        await run_to_death(team, master=master, a=a)
    async with opened() as again:
        assert (await go_on(again, master=mastered, a=a)).status == "completed"
    assert len(told(again, "turn_started", "n", "master")) == 3


async def test_the_time_an_agent_has_reasoned_counts_over_a_death(opened):
    clock = FakeClock()

    async def master(agent):
        await clock.sleep(60)
        await agent.use(input_tokens=1)
        await agent.call("get_children_status")
        await die(team)

    async def mastered(agent):
        assert again["master"].reasoning_used == pytest.approx(60, abs=1)
        await agent.complete()

    async with opened(check=False, clock=clock) as team:
        await run_to_death(team, master=master)
    async with opened(clock=clock) as again:
        assert (await go_on(again, master=mastered)).status == "completed"


async def test_that_a_budget_is_nearly_used_up_is_told_once_whoever_dies(opened):
    options = {"settings": {"budgets": {"tokens": 1000, "turns": 4}}}

    async def master(agent):
        await agent.use(input_tokens=850)
        await agent.call("get_children_status")
        await die(team)

    async def mastered(agent):
        await agent.use(input_tokens=860)
        await agent.complete()

    async with opened(check=False, **options) as team:
        await run_to_death(team, master=master)
    async with opened(**options) as again:
        assert (await go_on(again, master=mastered)).status == "completed"
    assert told(again, "budget_warned", "kind") == ["tokens"]


@pytest.mark.parametrize("first", [1, 2])
@pytest.mark.parametrize("how", ["kill", "fail"])
async def test_an_end_that_was_cut_off_in_its_cascade_ends_the_whole_subtree(opened, first, how):
    """After its first end, of the agent at the bottom, or after its second one."""

    async def master(agent):
        await agent.spawn(name="a")
        await team.seen("agent_state_changed", "c", to="running")
        ends = count_ends(team, first)
        a, manager = team["a"], team.manager
        ending = manager.kill_agent(a.agent_id, "enough")
        if how == "fail":
            ending.close()
            ending = team.engine.ends.stop_and_fail(a, "it is stuck", "stuck")
        with pytest.raises(StoreError):
            await ending
        assert len(ends) == first
        await die(team)

    async def spawns(agent, child):
        await agent.spawn(name=child)
        await agent.hang()

    def behaviours():
        return {"a": lambda agent: spawns(agent, "b"), "b": lambda agent: spawns(agent, "c")}

    async def mastered(agent):
        [result] = await agent.collect()
        assert result["error"] == ("enough" if how == "kill" else "it is stuck")
        await agent.complete()

    async with opened(check=False) as team:
        await run_to_death(team, master=master, **behaviours(), c=Actor.hang)
    async with opened() as again:
        assert (await go_on(again, master=mastered)).status == "completed"
        assert set(again.provider.requests) == {"master"}
    root = AgentState.KILLED if how == "kill" else AgentState.FAILED
    states = dict(again.ledger.rows("SELECT name, state FROM agents"))
    assert states == {"master": "completed", "a": root, "b": "killed", "c": "killed"}


async def test_all_agents_are_taken_over_in_one_step(opened):
    names = ("a", "b", "c")

    async def master(agent):
        for name in names:
            await agent.spawn(name=name)
            await team.seen("agent_state_changed", name, to="running")
        await die(team)

    async def mastered(agent):
        await agent.collect(len(names))
        await agent.complete()

    async with opened(check=False) as team:
        await run_to_death(team, master=master, **dict.fromkeys(names, Actor.hang))
    async with opened() as again:
        ends = dict.fromkeys(names, Actor.complete)
        assert (await go_on(again, master=mastered, **ends)).status == "completed"
    lives = again.ledger.rows("SELECT name, incarnation FROM agents")
    assert dict(lives) == dict.fromkeys(("master", *names), 2)
    anew = (
        "SELECT kind FROM steps WHERE kind LIKE '%AgentRestarted%' OR kind LIKE '%AgentsResumed%'"
    )
    assert again.ledger.rows(anew) == [("AgentsResumed",)]


async def test_who_is_ended_while_all_are_taken_over_is_heard_of_and_lives_no_more(opened):
    async def master(agent):
        await agent.spawn(name="a")
        await team.seen("agent_state_changed", "a", to="running")
        await die(team)

    async def mastered(agent):
        (told,) = await agent.collect()
        await agent.complete(told["error"])

    def is_ended_then(again):
        commit = again.store.commit

        async def and_then(step):
            done = await commit(step)
            if step.find(AgentsResumed) is not None:
                agent_id = again.manager.roster.resolve("a").agent_id
                await again.manager.kill_agent(agent_id, "a person has ended it")
            return done

        vars(again.store)["commit"] = and_then

    async with opened(check=False) as team:
        await run_to_death(team, master=master, a=Actor.hang)
    async with opened() as again:
        is_ended_then(again)
        result = await go_on(again, master=mastered, a=Actor.hang)
        assert (result.status, result.summary) == ("completed", "a person has ended it")
    assert again.ledger.rows("SELECT state, incarnation FROM agents WHERE name = 'a'") == [
        ("killed", 2)
    ]


def count_ends(team, most):
    """Let the engine die before it writes one end more than so many."""
    ends: list[Any] = []
    commit = team.store.commit

    async def counted(step):
        if step.find(AgentEnded) is not None:
            if len(ends) == most:
                raise StoreError(DIED)
            ends.append(step)
        return await commit(step)

    vars(team.store)["commit"] = counted
    return ends


async def test_a_long_answer_is_the_same_json_for_the_model_and_in_the_ledger(opened):
    read: dict[str, str] = {}

    async def master(agent):
        await agent.spawn(name="a")
        outcome = await agent.outcome("wait_for_message", {}, call_id="w")
        read.update(text=outcome.text)
        await agent.complete()

    async def a(agent):
        await agent.complete('"\\é' * 50_000)

    async with opened() as team:
        await team.run("do it", master=master, a=a)
    stored = team.ledger.one("SELECT result FROM tool_calls WHERE id = 'w'")
    assert read["text"] == stored
    assert len(stored) <= 64 * 1024
    answer = decode(stored)
    assert answer["type"] == "task_result"
    assert answer["summary"].endswith("[cut by prsm]")


async def test_no_number_of_deaths_is_held_against_an_agent(opened):
    async with opened(check=False) as team:

        async def master(agent):
            await agent.spawn(name="a")
            await die(team)

        await run_to_death(team, master=master, a=Actor.hang)
    for _ in range(20):
        async with opened(check=False) as dying:

            def dies(_, dying=dying):
                dying.store.broken = StoreError(DIED)

            dying.provider.refuse = dies
            with pytest.raises(StoreError, match=DIED):
                await go_on(dying, master=lambda agent: agent.complete())
    async with opened() as again:

        async def mastered(agent):
            await agent.collect()
            await agent.complete()

        assert (await go_on(again, master=mastered)).status == "completed"
    assert again.ledger.one("SELECT incarnation FROM agents WHERE name = 'master'") == 22


@pytest.mark.parametrize(("refusals", "status"), [(2, "completed"), (3, "failed")])
async def test_three_sessions_in_a_row_that_cannot_be_opened_fail_an_agent_that_was_cut_off(
    opened, refusals, status
):
    clock = FakeClock()

    async def master(_):
        await die(team)

    async with opened(check=False, clock=clock) as team:
        await run_to_death(team, master=master)
    async with opened(clock=clock) as again:
        tries = []

        def refuse(request):
            tries.append(request)
            if len(tries) <= refusals:
                raise ProviderNotAvailableError("its home is locked")

        again.provider.refuse = refuse
        assert (await go_on(again, master=Actor.complete)).status == status
    assert len(tries) == 3


async def test_mcp_servers_are_those_of_today_by_their_names(opened, tmp_path):
    """The ledger knows their names; their commands may hold secrets."""

    def configured(**commands):
        servers = {
            name: {"command": server_program(tmp_path, command)}
            for name, command in commands.items()
        }
        return {"settings": {"mcp_servers": servers}}

    async def master(agent):
        await agent.spawn(name="a")
        await agent.spawn(name="b", exclude_mcp_servers=["jira"])
        await die(team)

    async def mastered(agent):
        await agent.collect(2)
        await agent.complete()

    async with opened(check=False, **configured(jira="old", gone="gone")) as team:
        await run_to_death(team, master=master, a=Actor.hang, b=Actor.hang)
    async with opened(**configured(jira="new", other="other")) as again:
        ended = {"a": Actor.complete, "b": Actor.complete}
        assert (await go_on(again, master=mastered, **ended)).status == "completed"
    given = {
        name: {
            known: Path(server.command or "").name
            for known, server in requests[0].mcp_servers.items()
        }
        for name, requests in again.provider.requests.items()
    }
    assert given == {"master": {"jira": "new"}, "a": {"jira": "new"}, "b": {}}
