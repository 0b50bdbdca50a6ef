"""Shutting the engine down: once, whole, and by however many at one time."""

from __future__ import annotations

import asyncio

import pytest


@pytest.mark.requirement("E80")
async def test_shutting_down_twice_at_once_interrupts_the_run_once_and_last(opened):
    async def master(agent):
        await agent.spawn(name="a")
        await agent.say("half way")
        await agent.hang()

    async def a(agent):
        await agent.call("ask_parent", question="anyone?")

    async with opened() as team:
        running = team.start("do it", master=master, a=a)
        await team.seen("message_completed", role="assistant")
        await team.seen("agent_state_changed", "a", to="waiting_for_parent")
        await asyncio.gather(team.engine.shutdown(), team.engine.shutdown())
        result = await running
        assert (result.status, result.exit_code) == ("interrupted", 130)
        assert not team.manager.lives.running()
        await team.engine.shutdown()
    kinds = [event["type"] for event in team.ledger.events()]
    assert kinds[-1] == "run_finished"
    assert team.ledger.states("master")[-1] == "running"  # it can be resumed
    assert team.ledger.rows("SELECT status FROM turns") == [("running",), ("running",)]


@pytest.mark.requirement("E80")
async def test_a_run_whose_masters_last_turn_stays_open_is_one_to_go_on_with(opened):
    """Completed it would never be gone on with, and what the turn has used never be told."""

    async def master(agent):
        await agent.complete("done")
        await agent.hang()  # as a program that has more to say

    async with opened() as team:
        running = team.start("do it", master=master)
        await team.seen("agent_state_changed", "master", to="completed")
        await team.engine.shutdown()
        result = await running
        assert (result.status, result.exit_code) == ("interrupted", 130)
    assert team.ledger.rows("SELECT status FROM turns") == [("running",)]
    async with opened() as team:
        result = await team.engine.resume()
        assert (result.status, result.summary) == ("completed", "done")
    assert team.ledger.rows("SELECT status FROM turns WHERE status = 'running'") == []


@pytest.mark.requirement("E80")
async def test_who_shuts_down_second_is_let_go_only_when_all_is_shut_down(opened):
    """Else it would go on, and end the process, while the first still closes providers."""
    closing, may_close = asyncio.Event(), asyncio.Event()

    async def aclose():
        closing.set()
        await may_close.wait()

    async def master(agent):
        await agent.hang()

    async with opened() as team:
        team.provider.aclose = aclose
        running = team.start("do it", master=master)
        await team.seen("turn_started")
        first = asyncio.ensure_future(team.engine.shutdown())
        await closing.wait()
        second = asyncio.ensure_future(team.engine.shutdown())
        done, _ = await asyncio.wait({second}, timeout=0.05)
        assert not done
        may_close.set()
        await asyncio.gather(first, second)
        assert (await running).status == "interrupted"
    kinds = [event["type"] for event in team.ledger.events()]
    assert kinds.count("run_finished") == 1
