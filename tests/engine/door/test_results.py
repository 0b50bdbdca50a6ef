"""A program waits for what agents end with, over this engine and over a socket: never for good."""

from __future__ import annotations

import asyncio

import pytest
from prsm_console.results import wait_for_multiple, wait_for_result
from prsm_testing.fake_clock import FakeClock

from prsm_core import AgentResult, MessageRoutingError
from prsm_core.store.codec import decode
from tests.engine.door.scenes import local_scene, remote_scene
from tests.engine.harness import DEADLINE, failed

both_doors = pytest.mark.parametrize("scene_of", [local_scene, remote_scene])


def kept(team, name):
    """Return a result as the ledger has it, without what no event tells."""
    stored = decode(team.ledger.one("SELECT result FROM agents WHERE name = ?", name))
    return known(stored)


def known(result):
    told = result.to_dict() if isinstance(result, AgentResult) else dict(result)
    if told["error_kind"] != "killed":
        told["error_kind"] = None
    return {name: value for name, value in told.items() if name != "duration"}


async def ends_with_claim(agent):
    await agent.refused("task_complete", summary=" ")
    await agent.say("nearly")
    await agent.complete(" all of it\n", artifacts=["made.txt", "lost.txt"])


async def ends_with_words(agent):
    await agent.say("first")
    await agent.say("and last")


async def fails(agent):
    await agent.say("I try")
    await agent.say("and try")
    raise failed("no luck")


async def lives_twice(agent):
    if agent.turn == 1:
        await agent.complete("once")
        return
    await agent.complete("twice")


ENDS = {"claims": ends_with_claim, "says": ends_with_words, "fails": fails, "again": lives_twice}


@pytest.mark.requirement("E76")
@both_doors
async def test_results_of_agents_are_as_the_ledger_has_them(tmp_path, scene_of):
    async def master(agent):
        (team.workspace / "made.txt").write_text("x")
        await agent.spawn(name="killed")
        for name in ENDS:
            await agent.call("spawn_child", prompt="x", name=name, wait=True)
        await agent.call("restart_child", child_id="again", prompt="x", wait=True)
        spawned.set()
        await go_on.wait()
        await agent.complete("over")

    async def killed(agent):
        await agent.say("I was at it")
        await agent.hang()

    spawned, go_on = asyncio.Event(), asyncio.Event()
    async with scene_of(tmp_path) as scene, asyncio.timeout(DEADLINE):
        team = scene.team
        team.provider.behaviours.update(ENDS, master=master, killed=killed)
        run = await scene.app.runs.start("do it")
        await spawned.wait()
        names = [*ENDS, "killed"]
        async with asyncio.TaskGroup() as group:  # four of them have ended, one is about to
            waiting = group.create_task(wait_for_multiple(scene.app, names))
            await scene.app.agents.kill("killed")
        results = dict(zip(names, waiting.result(), strict=True))
        assert {name: known(result) for name, result in results.items()} == {
            name: kept(team, name) for name in names
        }
        go_on.set()
        master_result = await wait_for_result(scene.app, "master")
        assert (master_result.success, master_result.summary) == (True, "over")
        await run.result()
    assert [results[name].summary for name in names] == [
        *("all of it", "and last", "I try\nand try", "twice"),
        "I was at it",
    ]
    assert results["claims"].artifacts == ("made.txt", "lost.txt")
    assert (results["fails"].success, results["fails"].error) == (False, "no luck")
    assert results["killed"].error_kind == "killed"


class SeenClock(FakeClock):
    """A clock that tells when somebody begins to wait by it."""

    def __init__(self):
        super().__init__(autojump=False)
        self.is_waited_by = asyncio.Event()

    def call_later(self, seconds, callback):
        self.is_waited_by.set()
        return super().call_later(seconds, callback)


@pytest.mark.requirement("E76")
@both_doors
async def test_an_agent_that_does_not_end_is_a_failed_result_in_time_and_goes_on(
    tmp_path, scene_of
):
    async def master(agent):
        await agent.spawn(name="a")
        await agent.spawn(name="b")
        await agent.collect(2)
        await agent.complete("both")

    async def b(agent):
        works.set()
        await go_on.wait()
        await agent.complete()

    works, go_on, clock = asyncio.Event(), asyncio.Event(), SeenClock()
    async with scene_of(tmp_path) as scene, asyncio.timeout(DEADLINE):
        scene.team.provider.behaviours.update(master=master, b=b)
        run = await scene.app.runs.start("do it")
        await works.wait()
        quick = await wait_for_result(scene.app, "a")
        assert (quick.success, quick.summary) == (True, "a is done")
        async with asyncio.TaskGroup() as group:
            waits = wait_for_result(scene.app, "b", timeout_s=160, clock=clock)
            waiting = group.create_task(waits)
            await clock.is_waited_by.wait()
            await clock.advance(159)
            assert not waiting.done()
            await clock.advance(1)
        late = waiting.result()
        assert (late.success, late.error_kind) == (False, "timeout")
        assert late.error == "no result within 160 s"
        go_on.set()
        assert (await run.result()).summary == "both"


@both_doors
async def test_nobody_is_waited_for_who_is_not_there(tmp_path, scene_of):
    async with scene_of(tmp_path) as scene, asyncio.timeout(DEADLINE):
        assert await wait_for_multiple(scene.app, []) == []
        with pytest.raises(MessageRoutingError, match="no agent is called 'nobody'"):
            await wait_for_result(scene.app, "nobody")
