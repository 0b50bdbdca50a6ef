"""A master that somebody drives from outside: not paced, not counted, and ended by leaving."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest
from prsm_testing.fake_clock import FakeClock

from prsm_core.cli.leading import NAME, Seat
from prsm_core.domain.turns import ErrorKind
from tests.engine.harness import DEADLINE, SESSION, failed

DAY = 86_400.0
WAIT = "wait_for_message"


class Driver:
    """Whoever drives the master: calls its tools whenever it likes."""

    def __init__(self, team, seat, host, run):
        self.team = team
        self.seat = seat
        self.host = host
        self.run = run

    async def call(self, tool, /, *, patience_s=None, **arguments):
        outcome = await self.host.call_tool(tool, arguments, patience_s=patience_s)
        assert not outcome.is_error, outcome.text
        return outcome.data

    async def refused(self, tool, /, **arguments):
        outcome = await self.host.call_tool(tool, arguments)
        assert outcome.is_error, outcome.text
        return outcome.data["error"]

    async def leave(self):
        self.seat.leave()
        async with asyncio.timeout(DEADLINE):
            return await self.run


@pytest.fixture
def driven(opened):
    """Open a team whose master this test drives."""

    @asynccontextmanager
    async def drive(*, behaviours=None, **fields):
        seat = Seat()
        async with opened(external=seat.spec, **fields) as team:
            run = team.start("lead", **(behaviours or {}))
            async with asyncio.timeout(DEADLINE):
                host = await seat.host()
            yield Driver(team, seat, host, run)

    return drive


async def hang(agent):
    await agent.hang()


async def test_its_children_run_on_the_model_of_the_run_and_their_results_come_back(driven):
    async with driven(settings={"defaults": {"model": "fast"}}) as driver:
        child = await driver.call("spawn_child", prompt="count", name="w1")
        result = await driver.call(WAIT)
        assert (result["from"], result["summary"]) == (child["agent_id"], "w1 is done")
        end = await driver.leave()
        assert (end.status, end.exit_code) == ("completed", 0)
        descriptor = driver.team["w1"].descriptor
        assert (descriptor.provider, descriptor.model) == ("script", "fast")
        assert driver.team["master"].descriptor.provider == NAME


@pytest.mark.requirement("U29")
async def test_a_client_hears_of_a_child_that_its_login_keeps_from_going_on(driven):
    async def refused(_):
        raise failed("401 Unauthorized", kind=ErrorKind.AUTH_FAILURE)

    async with driven(behaviours={"w1": refused}) as driver:
        await driver.call("spawn_child", prompt="count", name="w1")
        result = await driver.call(WAIT)
        assert (result["success"], result["error"]) == (False, "401 Unauthorized")
        end = await driver.leave()
        assert (end.status, end.exit_code) == ("completed", 0)


@pytest.mark.requirement("E61")
async def test_who_drives_is_told_which_models_its_children_may_have(driven):
    async with driven() as driver:
        told = "For spawn_child's model, usable now:\n- script: scripted agents"
        assert driver.seat.brief == told
        assert (await driver.leave()).status == "completed"


async def test_the_master_model_of_the_settings_is_not_for_its_children(driven):
    models = {"defaults": {"model": "small", "master_model": "large"}}
    async with driven(settings=models) as driver:
        await driver.call("spawn_child", prompt="count", name="w1", wait=True)
        assert driver.team["w1"].descriptor.model == "small"
        await driver.leave()


async def test_nobody_else_can_be_driven_from_outside(driven):
    models = {"models": {"me": {"provider": NAME, "model_id": "default"}}}
    async with driven(settings=models) as driver:
        refusal = await driver.refused("spawn_child", prompt="x", model="me")
        assert refusal["code"] == "model_not_available"
        await driver.call("spawn_child", prompt="x", name="w1", model=f"{NAME}/default")
        assert driver.team["w1"].descriptor.provider == "script"
        assert (await driver.call("consult_peer", question="?", peer="list"))["peers"] == [
            "script/default"
        ]
        await driver.leave()


async def test_leaving_kills_the_children_first_and_completes_the_run(driven):
    async def parent(agent):
        await agent.spawn(name="w2")
        await agent.hang()

    async with driven(behaviours={"w1": parent, "w2": hang}) as driver:
        await driver.call("spawn_child", prompt="x", name="w1")
        await driver.team.seen("turn_started", "w2")
        end = await driver.leave()
        assert (end.status, end.exit_code) == ("completed", 0)
    ends = [
        driver.team.manager.roster.names()[agent]
        for agent, to in driver.team.ledger.rows(
            "SELECT agent_id, json_extract(data, '$.to') FROM events "
            "WHERE type = 'agent_state_changed' ORDER BY seq"
        )
        if to in {"killed", "completed"}
    ]
    assert ends == ["w2", "w1", "master"]
    assert len(driver.team.ledger.events("run_finished")) == 1


async def test_leaving_cuts_off_the_calls_that_still_wait(driven):
    async with driven(behaviours={"w1": hang}) as driver:
        await driver.call("spawn_child", prompt="x", name="w1")
        waiting = asyncio.ensure_future(driver.host.call_tool(WAIT, {}))
        await driver.team.seen("tool_call_started", tool=WAIT)
        await driver.leave()
        outcome = await waiting
        assert outcome.data["error"]["code"] == "turn_over"


async def test_no_clock_ends_its_turn(driven):
    async with driven(clock=FakeClock()) as driver:
        await driver.team.clock.sleep(DAY)
        await driver.call("spawn_child", prompt="x", name="w1")
        await driver.team.clock.sleep(DAY)
        assert (await driver.call(WAIT))["summary"] == "w1 is done"
        assert (await driver.leave()).status == "completed"


async def test_it_takes_no_slot(driven):
    async with driven(engine={"max_concurrent_agents": 1}) as driver:
        await driver.call("spawn_child", prompt="x", name="w1")
        await driver.team.seen("agent_state_changed", "w1", to="completed")
        await driver.leave()


async def test_asking_for_the_same_again_and_again_does_not_fail_it(driven):
    stuck = {"stuck": {"polls": 2, "repeats": 2}}
    async with driven(behaviours={"w1": hang}, settings=stuck) as driver:
        await driver.call("spawn_child", prompt="x", name="w1")
        for _ in range(10):
            assert "notice" not in await driver.call("get_children_status")
        assert not driver.team["master"].has_ended
        await driver.leave()


async def test_a_long_wait_is_answered_pending_and_its_token_gives_the_result(driven):
    go_on = asyncio.Event()

    async def slow(agent):
        await go_on.wait()
        await agent.complete("at last")

    async with driven(behaviours={"w1": slow}) as driver:
        await driver.call("spawn_child", prompt="x", name="w1")
        pending = await driver.call(WAIT, patience_s=0.01)
        assert pending["type"] == "pending"
        go_on.set()
        result = await driver.call(WAIT, patience_s=DEADLINE, token=pending["token"])
        assert result["summary"] == "at last"
        await driver.leave()


@pytest.mark.parametrize("delivery", ["inject", "queue", "interrupt"])
async def test_a_persons_prompt_waits_for_its_next_call(driven, delivery):
    async with driven() as driver:
        master = driver.team["master"]
        told = await driver.team.engine.prompting.prompt(master.agent_id, "hurry", delivery)
        assert told == "queued"
        assert await driver.call(WAIT) == {
            "type": "user_prompt",
            "from": "user",
            "text": "hurry",
            "progress": [],
        }
        await driver.leave()


async def test_killing_it_ends_the_run_as_killed(driven):
    async with driven(behaviours={"w1": hang}) as driver:
        await driver.call("spawn_child", prompt="x", name="w1")
        await driver.team.manager.kill_agent(driver.team["master"].agent_id)
        end = await driver.run
        assert (end.status, end.exit_code) == ("killed", 1)
        assert driver.team["w1"].state.value == "killed"


async def test_what_it_hands_down_is_in_the_ledger(driven):
    async with driven() as driver:
        await driver.leave()
        [row] = await driver.team.store.agents(SESSION)
        assert row.descriptor.grant == driver.team["master"].descriptor.grant
        assert row.descriptor.grant.model == "script/default"
