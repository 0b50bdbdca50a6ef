"""A run whose starter gives up, or whose driver is cancelled: none of its agents outlives it."""

import asyncio

import pytest

from prsm_core.domain.writes import RunFinished
from prsm_core.kit.clocks import SystemClock
from tests.engine import control_peers
from tests.engine.door.scenes import local_scene
from tests.engine.harness import SESSION, open_team
from tests.engine.held_store import HeldStore
from tests.engine.hostile import until
from tests.engine.ledger import Ledger


async def events_of(team):
    await team.engine.journal.flush()
    return [event async for event in team.store.events(SESSION)]


def living(team):
    return [one for one in team.engine.manager.roster.records() if not one.state.is_terminal]


async def give_up_after(steps, starting, scene):
    """Cancel a start after so many rounds of the loop; what has begun by then is interrupted."""
    for _ in range(steps):
        await asyncio.sleep(0)
    starting.cancel()
    await asyncio.wait({starting})
    if not starting.cancelled():  # it had begun before
        await scene.app.runs.interrupt()
    await until(lambda: not scene.team.engine.is_running, "no run is open")
    assert not await scene.app.runs.interrupt()  # its end is written


async def check_ended(team):
    """Each run that began has ended, and nobody has done anything after that."""
    assert living(team) == []
    told = [event.type for event in await events_of(team)]
    assert told.count("run_started") == told.count("run_finished")
    assert not told or told[-1] == "run_finished"


@pytest.mark.parametrize("steps", [*range(16), 21, 34, 55, 89])
async def test_who_gives_up_a_start_leaves_no_run_behind_and_no_agent(tmp_path, steps):
    """At whatever moment: what has begun by then is interrupted, and the next one begins."""
    async with asyncio.timeout(control_peers.DEADLINE), local_scene(tmp_path) as scene:
        await give_up_after(steps, asyncio.ensure_future(scene.app.runs.start("count")), scene)
        await check_ended(scene.team)
        left = (await scene.app.view()).run
        assert left is None or left.status == "interrupted"
        run = await scene.app.runs.start("count again")
        await scene.say("here")
        await scene.finish("counted")
        assert (await run.result()).status == "completed"


@pytest.mark.parametrize("steps", [*range(16), 21, 34, 55, 89])
async def test_who_gives_up_a_further_task_leaves_no_run_behind_and_no_agent(tmp_path, steps):
    async with asyncio.timeout(control_peers.DEADLINE), local_scene(tmp_path) as scene:
        run = await scene.app.runs.start("count")
        await scene.finish("counted")
        assert (await run.result()).status == "completed"
        await give_up_after(steps, asyncio.ensure_future(scene.app.runs.follow_up("more")), scene)
        await check_ended(scene.team)
        run = await scene.app.runs.follow_up("count again")
        await scene.finish("counted twice")
        assert (await run.result()).summary == "counted twice"


async def test_a_run_whose_driver_was_cancelled_is_interrupted_with_all_its_agents(tmp_path):
    async def lead(agent):
        await agent.spawn(name="worker")
        await agent.hang()

    async with open_team(tmp_path) as team:
        team.provider.behaviours.update(master=lead, worker=lambda agent: agent.hang())
        driving = asyncio.ensure_future(team.engine.run("do it", "default"))
        await until(lambda: len(living(team)) == 2, "both are there")
        driving.cancel()
        await asyncio.wait({driving})
        assert team.engine.is_running
        assert await team.engine.interrupt_run()
        await check_ended(team)


class SlowToEnd(HeldStore):
    """Writes no end of a run before it may."""

    asked: asyncio.Event
    may: asyncio.Event

    async def commit(self, step):
        if any(isinstance(write, RunFinished) for write in step.writes):
            self.asked.set()
            await self.may.wait()
        return await super().commit(step)


async def test_who_interrupts_a_run_that_ends_goes_on_once_its_end_is_written(tmp_path):
    clock = SystemClock()
    store = await SlowToEnd.on(Ledger(tmp_path / "ledger.db").path, clock)
    store.asked, store.may = asyncio.Event(), asyncio.Event()
    async with (
        asyncio.timeout(control_peers.DEADLINE),
        local_scene(tmp_path, store=store, clock=clock) as scene,
    ):
        run = await scene.app.runs.start("count")
        await scene.finish("counted")
        await store.asked.wait()
        assert not scene.team.engine.is_running
        asked = asyncio.ensure_future(scene.app.runs.interrupt())
        await scene.team.rounds()
        is_early = asked.done()
        store.may.set()
        assert (is_early, await asked) == (False, False)
        assert (await events_of(scene.team))[-1].type == "run_finished"
        assert (await run.result()).status == "completed"


@pytest.mark.parametrize("steps", range(12))
async def test_an_interrupt_that_comes_late_ends_no_later_run(tmp_path, steps):
    """It was asked in one run, and is heeded once that has ended and the next one begins."""
    async with asyncio.timeout(control_peers.DEADLINE), local_scene(tmp_path) as scene:
        run = await scene.app.runs.start("count")
        await scene.finish("counted")
        for _ in range(steps):
            await asyncio.sleep(0)
        asked = asyncio.ensure_future(scene.app.runs.interrupt())
        while scene.team.engine.is_running:  # noqa: ASYNC110 - each round of the loop counts
            await asyncio.sleep(0)
        later = await scene.app.runs.start("count again")
        await asked
        assert (await run.result()).status in {"completed", "interrupted"}
        await scene.finish("counted on")
        assert (await later.result()).summary == "counted on"
