"""A login or a limit holds an agent: it is no failure, and a person or time ends it."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from prsm_testing.fake_clock import FakeClock

from prsm_core.domain.agents import AgentState
from prsm_core.domain.turns import ErrorKind
from prsm_core.domain.writes import AgentHeld
from prsm_core.engine.agents.holds import END_RUN, TRY_AGAIN, WAIT_ON
from prsm_core.engine.door.local import set_model
from prsm_core.errors import ConfigError, ProviderNotAvailableError
from tests.engine.deaths import dies_after, go_on, run_to_death
from tests.engine.harness import SESSION, failed

LOGIN = {"kind": ErrorKind.AUTH_FAILURE}
LIMIT = {"kind": ErrorKind.RATE_LIMIT}
HOUR = 3600.0


def refused():
    return failed("401 Unauthorized", **LOGIN)


def limited(after=None, *, retryable=False):
    return failed("usage limit reached", **LIMIT, retryable=retryable, after=after)


def held(team, name=None):
    return [told["waiting_on"] for told in team.ledger.events("agent_held", name)]


def choose(*choices, text=None):
    return {"choices": list(choices), "text": text}


async def answered(team, *choices):
    """Answer the question that a held agent asks, once it is asked; return its event."""
    asked = await team.seen("question_asked")
    assert await team.engine.requests.give(asked.data["request"], "question", choose(*choices))
    return asked


class Until:
    """Fails an agent's turns until it is mended."""

    def __init__(self, error=refused, first=1) -> None:
        self.error, self.first, self.is_mended = error, first, False

    async def __call__(self, agent):
        if not self.is_mended and agent.turn >= self.first:
            raise self.error()
        await agent.complete(f"{agent.name} is done")


@pytest.mark.requirement("U29", "N12")
@pytest.mark.parametrize("error", [refused, limited])
@pytest.mark.parametrize("way", ["ask", "end"])
async def test_without_a_person_the_run_is_interrupted_and_a_resume_goes_on_with_it(
    opened, error, way
):
    clock, engine, seen = FakeClock(), {"limits": way}, []

    async def master(agent):
        if agent.turn == 1:
            child = await agent.spawn(name="w1")
            seen.append(child)
            raise error()
        [result] = await agent.collect()
        assert result["summary"] == "w1 is done"
        await agent.complete()

    async def w1(agent):
        await agent.say("at work")
        await agent.complete("w1 is done")

    interactive = way == "end"
    async with opened(check=False, clock=clock, engine=engine, interactive=interactive) as team:
        result = await team.run("do it", master=master, w1=w1)
        assert (result.status, result.exit_code) == ("interrupted", 4)
        assert "master is held by" in result.error
        assert team.ledger.states("w1")[-1] == "completed"  # it went on to its end
        assert team.ledger.states("master")[-1] == "running"
        with pytest.raises(ConfigError, match="a login or a limit holds it"):
            await team.engine.run("another")
    [finished] = team.ledger.events("run_finished")
    assert (finished["status"], finished["exit_code"]) == ("interrupted", 4)

    async def on(agent):
        [result] = await agent.collect()
        assert result["summary"] == "w1 is done"
        await agent.complete("all is done")

    async with opened(clock=clock, engine=engine) as again:
        result = await go_on(again, master=on)
        assert (result.status, result.summary) == ("completed", "all is done")
        assert len(again.ledger.events("agent_spawned", "w1")) == 1
        assert held(again, "master")[-1] is None


@pytest.mark.requirement("U29")
async def test_a_child_that_is_held_ends_the_run_once_nobody_else_works(opened):
    slow = asyncio.Event()

    async def master(agent):
        await agent.spawn(name="w1")
        await agent.spawn(name="w2")
        [first] = await agent.collect()
        assert first["name"] == "w2"
        heard.append(first["summary"])
        await agent.collect()

    async def w1(agent):
        slow.set()
        raise refused()

    async def w2(agent):
        await slow.wait()
        await agent.complete("w2 is done")

    heard: list[str] = []
    async with opened(check=False, clock=FakeClock()) as team:
        result = await team.run("do it", master=master, w1=w1, w2=w2)
    assert (result.status, result.exit_code) == ("interrupted", 4)
    assert heard == ["w2 is done"]  # the master acted on it before the run ended
    assert result.error == "w1 is held by a login: 401 Unauthorized"


@pytest.mark.requirement("U29")
@pytest.mark.parametrize("choice", [TRY_AGAIN, None])
async def test_a_person_who_has_logged_in_has_it_tried_again(opened, choice):
    master = Until(first=2)

    async def behave(agent):
        if agent.turn == 1:
            await agent.spawn(name="w1")
            await agent.spawn(name="w2")
            raise refused()
        await master(agent)

    async def w1(agent):
        await w1_may_end.wait()
        await agent.complete("w1 is done")

    w1_may_end = asyncio.Event()
    master.is_mended = True
    async with opened(interactive=True, engine={"max_concurrent_agents": 1}) as team:
        run = team.start("do it", master=behave, w1=w1)
        asked = await team.seen("question_asked")
        assert asked.data["options"] == [TRY_AGAIN, WAIT_ON, END_RUN]
        assert "401 Unauthorized" in asked.data["question"]
        assert (team["master"].state, team["master"].waiting_on) == (AgentState.RUNNING, "a login")
        # it has no slot, so that one after the other goes on
        await team.seen("turn_started", "w1")
        w1_may_end.set()
        await team.seen("agent_state_changed", "w2", to="completed")
        given = choose(*([choice] if choice else []), text=None if choice else "done")
        assert await team.engine.requests.give(asked.data["request"], "question", given)
        assert (await run).status == "completed"
        assert held(team, "master") == ["a login", None]
        assert team.ledger.states("w1")[-1] == "completed"


@pytest.mark.requirement("U29")
async def test_one_answer_is_for_all_agents_of_a_provider(opened):
    names = ("w1", "w2", "w3")
    workers = {name: Until() for name in names}

    async def master(agent):
        for name in names:
            await agent.spawn(name=name)
        await agent.collect(3)
        await agent.complete()

    async with opened(interactive=True) as team:
        run = team.start("do it", master=master, **workers)
        for name in names:
            await team.seen("agent_held", name)
        for worker in workers.values():
            worker.is_mended = True
        await answered(team, TRY_AGAIN)
        assert (await run).status == "completed"
        assert len(team.ledger.events("question_asked")) == 1


@pytest.mark.requirement("U29")
async def test_whoever_asks_may_be_killed_and_another_one_asks(opened):
    workers = {name: Until() for name in ("w1", "w2")}

    async def master(agent):
        for name in workers:
            await agent.spawn(name=name)
        results = await agent.collect(2)
        assert {one["name"]: one["success"] for one in results} == {"w1": False, "w2": True}
        await agent.complete()

    async with opened(interactive=True) as team:
        run = team.start("do it", master=master, **workers)
        for name in workers:
            await team.seen("agent_held", name)
        asked = await team.seen("question_asked", "w1")
        workers["w2"].is_mended = True
        await team.manager.kill_agent(team["w1"].agent_id)
        again = await team.seen("question_asked", "w2")
        assert asked.data["request"] != again.data["request"]
        assert await team.engine.requests.give(again.data["request"], "question", choose(TRY_AGAIN))
        assert (await run).status == "completed"
        assert team.ledger.states("w1")[-1] == "killed"


@pytest.mark.requirement("U29")
@pytest.mark.parametrize("choice", [END_RUN, None])
async def test_a_person_may_end_the_run_and_so_does_nobody(opened, choice):
    clock = FakeClock()
    engine = {"human_timeout_seconds": 600}
    async with opened(check=False, clock=clock, engine=engine, interactive=True) as team:
        run = team.start("do it", master=Until())
        if choice is not None:
            await answered(team, choice)
        result = await run
    assert (result.status, result.exit_code) == ("interrupted", 4)
    assert clock.now() == pytest.approx(0 if choice else 600, abs=1)


@pytest.mark.requirement("U29")
@pytest.mark.parametrize("way", ["wait", "ask"])
async def test_at_the_time_that_the_vendor_tells_it_is_tried_again(opened, way):
    """Nobody need answer for that, and no clock of the agent's goes on meanwhile."""

    async def master(agent):
        if agent.turn == 1:
            raise limited(after=5 * HOUR)
        await agent.complete()

    clock = FakeClock()
    engine = {"limits": way, "human_timeout_seconds": 9 * HOUR, "agent_timeout_seconds": HOUR}
    async with opened(clock=clock, engine=engine, interactive=way == "ask") as team:
        result = await team.run("do it", master=master)
        assert result.status == "completed"
        assert clock.now() == pytest.approx(5 * HOUR, abs=1)
        [told, over] = team.ledger.events("agent_held", "master")
        assert told["waiting_on"].startswith("a usage limit until 20")
        assert told["until"] == pytest.approx(clock.time(), abs=1)
        assert told["reason"] == "usage limit reached"
        assert over["waiting_on"] is None
        assert team["master"].reasoning_used < 1
        answers = team.ledger.events("question_answered")
        assert [one["by"] for one in answers] == (["reset"] if way == "ask" else [])


@pytest.mark.requirement("U29")
async def test_where_no_time_is_told_it_is_tried_less_and_less_often(opened):
    tried: list[float] = []

    async def master(agent):
        tried.append(clock.now())
        if len(tried) < 8:
            raise refused()
        await agent.complete()

    clock = FakeClock()
    async with opened(clock=clock, engine={"limits": "wait"}) as team:
        assert (await team.run("do it", master=master)).status == "completed"
    pauses = [round(b - a) for a, b in pairwise(tried)]
    assert pauses == [60, 120, 240, 480, 900, 900, 900]


@pytest.mark.requirement("U29", "E27")
async def test_what_may_pass_soon_is_tried_five_times_before_it_holds(opened):
    async def master(agent):
        raise limited(retryable=True)

    async with opened(check=False, clock=FakeClock()) as team:
        result = await team.run("do it", master=master)
    assert (result.status, result.exit_code) == ("interrupted", 4)
    assert len(team.ledger.events("retry_scheduled")) == 5


@pytest.mark.requirement("U29")
async def test_the_time_limit_of_the_run_ends_it_while_an_agent_is_held(opened):
    clock = FakeClock()
    async with opened(clock=clock, engine={"limits": "wait"}) as team:
        team.provider.behaviours["master"] = Until(lambda: limited(after=HOUR))
        result = await team.engine.run("do it", timeout_s=100.0)
        assert (result.status, result.exit_code) == ("killed", 1)
        assert "time limit" in result.error
        assert clock.now() < 110


@pytest.mark.requirement("U29")
async def test_a_held_agent_can_be_killed(opened):
    async def master(agent):
        await agent.spawn(name="w1")
        [result] = await agent.collect()
        assert (result["success"], result["error"]) == (False, "killed by a test")
        await agent.complete()

    async with opened(engine={"limits": "wait"}) as team:
        run = team.start("do it", master=master, w1=Until(lambda: limited(after=HOUR)))
        await team.seen("agent_held", "w1")
        await team.manager.kill_agent(team["w1"].agent_id, "killed by a test")
        assert (await run).status == "completed"
        assert team.ledger.states("w1")[-1] == "killed"


@pytest.mark.requirement("U29")
@pytest.mark.parametrize("way", ["ask", "wait"])
async def test_a_model_that_a_person_chooses_goes_on_at_once(opened, way):
    async def master(agent):
        if agent.session.request.model == "first":
            raise limited(after=HOUR)
        await agent.complete()

    settings = {"defaults": {"provider": "script", "model": "first"}}
    engine = {"limits": way}
    async with opened(engine=engine, settings=settings, interactive=True) as team:
        run = team.start("do it", master=master)
        await team.seen("agent_held", "master")
        assert await set_model(team.engine, team["master"].agent_id, "second") == "script/second"
        assert (await run).status == "completed"
        assert held(team, "master")[-1] is None
        assert list(await team.store.open_requests(SESSION)) == []


@pytest.mark.requirement("U29")
async def test_a_held_agent_is_in_no_knot(opened):
    async def master(agent):
        await agent.spawn(name="w1")
        await agent.collect()
        await agent.complete()

    async def w1(agent):
        if agent.turn == 1:
            raise limited(after=HOUR)
        await agent.complete()

    async with opened(clock=FakeClock(), engine={"limits": "wait"}) as team:
        assert (await team.run("do it", master=master, w1=w1)).status == "completed"
        assert team.ledger.events("deadlock_detected") == []


@pytest.mark.requirement("U29")
async def test_a_held_agent_outlives_a_crash(opened):
    clock, engine = FakeClock(), {"limits": "wait"}

    async def master(agent):
        await agent.spawn(name="w1")
        await agent.collect()
        await agent.complete()

    async def w1(agent):
        raise limited(after=HOUR)

    async with opened(check=False, clock=clock, engine=engine) as team:
        dies_after(team, AgentHeld)
        await run_to_death(team, master=master, w1=w1)

    async def mended(agent):
        assert agent.text is None  # it goes on where it stopped
        await agent.complete("w1 is done")

    async with opened(clock=clock, engine=engine) as again:
        result = await go_on(again, master=master, w1=mended)
        assert result.status == "completed"
        assert held(again, "w1")[-1] is None
        assert (await again.store.state(SESSION)).agents[1].waiting_on is None


@pytest.mark.requirement("U29")
async def test_a_session_that_lacks_a_login_holds_a_child_too(opened):
    logged_in: list[bool] = []

    def refuse(request):
        if request.name == "w1" and not logged_in:
            raise ProviderNotAvailableError("log in first", code="not_logged_in")

    async def master(agent):
        await agent.spawn(name="w1")
        [result] = await agent.collect()
        assert result["success"]
        await agent.complete()

    async with opened(interactive=True, refuse=refuse) as team:
        run = team.start("do it", master=master)
        await team.seen("question_asked", "w1")
        logged_in.append(True)
        await answered(team, TRY_AGAIN)
        assert (await run).status == "completed"
