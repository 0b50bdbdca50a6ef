"""What an agent costs the engine, counted: function calls and tasks, which no busy machine changes.

`python -m benchmarks spawn` measures the same in time.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import contextmanager

import pytest
from prsm_testing.fake_clock import FakeClock

from benchmarks.ask import dialogue
from benchmarks.spawn import at_once, one_by_one
from benchmarks.team import open_team

FEW, MANY = 20, 60
# The stub runs each call in a task of its own: so many a child, or a question.
CALLS = {one_by_one: 2, at_once: 1, dialogue: 3}


@contextmanager
def counted_calls():
    """Count the calls of Python functions; a coroutine that goes on counts once more."""
    counts = {"calls": 0}

    def count(_frame, event, _argument):
        counts["calls"] += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        yield counts
    finally:
        sys.setprofile(before)


async def cost_of(behave):
    """Return the calls and the tasks of a run; its engine is open already."""
    loop, tasks = asyncio.get_running_loop(), []

    def make(loop, work, **options):
        tasks.append(work)
        return asyncio.Task(work, loop=loop, **options)

    async with open_team(behave, clock=FakeClock()) as team:
        loop.set_task_factory(make)
        try:
            with counted_calls() as counts:
                await team.run()
        finally:
            loop.set_task_factory(None)
    return counts["calls"], len(tasks)


async def cost_of_one(act):
    """Return what one more of an act costs, all that happens once left out."""
    await cost_of(act(FEW))  # what is made at first use is there
    few, many = await cost_of(act(FEW)), await cost_of(act(MANY))
    return [(more - less) / (MANY - FEW) for less, more in zip(few, many, strict=True)]


# Little more than it took when the bounds were set: a call costs a tenth of a microsecond at least,
# and whoever needs many more of them for every child is to know it.
@pytest.mark.parametrize(("act", "most"), [(one_by_one, 1920), (at_once, 1620), (dialogue, 1445)])
async def test_a_child_and_a_question_take_no_more_calls_than_known(act, most):
    calls, _ = await cost_of_one(act)
    assert calls <= most


@pytest.mark.parametrize(("act", "own"), [(one_by_one, 1), (at_once, 1), (dialogue, 0)])
async def test_a_child_has_one_task_and_a_question_none(act, own):
    _, tasks = await cost_of_one(act)
    assert tasks == pytest.approx(own + CALLS[act], abs=0.1)
