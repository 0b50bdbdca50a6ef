"""Engines that die: a run is cut off by a death, and another engine goes on with it."""

from __future__ import annotations

import asyncio

import pytest

from prsm_core.errors import StoreError

DIED = "the engine has died"


async def die(team) -> None:
    """Let the engine die, here and now: what it has done is in its ledger, and nothing more."""
    await team.engine.journal.flush()
    team.store.broken = StoreError(DIED)
    team.engine.journal.note("notice", level="info", text="which nobody hears")
    await asyncio.Event().wait()


def dies_at(team, kind) -> None:
    """Let the engine die before it writes a step of this kind."""
    commit = team.store.commit

    async def cut_off(step):
        if step.find(kind) is not None:
            team.store.broken = StoreError(DIED)
        return await commit(step)

    vars(team.store)["commit"] = cut_off


def dies_after(team, kind) -> None:
    """Let the engine die once a step of this kind is durable."""
    commit = team.store.commit

    async def cut_off(step):
        done = await commit(step)
        if step.find(kind) is not None:
            team.store.broken = StoreError(DIED)
        return done

    vars(team.store)["commit"] = cut_off


async def run_to_death(team, **behaviours) -> None:
    """Run a task until the engine dies."""
    with pytest.raises(StoreError, match=DIED):
        await team.run("do it", **behaviours)


async def go_on(team, **behaviours):
    """Go on with what an engine has left; return the result."""
    team.provider.behaviours.update(behaviours)
    result = await team.engine.resume()
    if team.provider.failures:
        raise team.provider.failures[0]
    return result
