"""Background tasks: where they end, who hears of their errors, and what outlives its caller."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from prsm_testing.fake_clock import FakeClock

from prsm_core.kit.background import Background

DEADLINE = 10.0


@pytest.fixture
def failures():
    return []


@pytest.fixture
async def background(failures):
    async with asyncio.timeout(DEADLINE):
        async with Background(lambda *failure: failures.append(failure)) as background:
            yield background


@pytest.mark.parametrize("is_bare", [False, True])
async def test_a_task_that_fails_is_reported_and_leaves_the_others_alone(
    background, failures, is_bare
):
    error = ValueError("it broke")

    async def fail():
        raise error

    other = background.start(asyncio.Event().wait(), name="other")
    await asyncio.wait({background.start(fail(), name="a task", is_bare=is_bare)})
    assert failures == [("a task", error)]
    assert not other.done()


@pytest.mark.parametrize("is_bare", [False, True])
async def test_a_task_that_is_cancelled_before_it_began_leaves_nothing_behind(background, is_bare):
    task = background.start(asyncio.Event().wait(), name="a task", is_bare=is_bare)
    task.cancel()
    await asyncio.wait({task})  # a coroutine that was never awaited would be a warning
    assert task.cancelled()


async def test_everything_that_still_runs_ends_with_the_engine(failures):
    async with Background(lambda *failure: failures.append(failure)) as background:
        task = background.start(asyncio.Event().wait(), name="a task")
    assert task.cancelled()
    assert failures == []


async def test_the_caller_gets_what_it_waited_for_or_its_error(background, failures):
    async def answer():
        await asyncio.sleep(0)
        return 42

    async def fail():
        await asyncio.sleep(0)
        raise ValueError("it broke")

    assert await background.finish(answer()) == 42
    with pytest.raises(ValueError, match="it broke"):
        await background.finish(fail())
    assert failures == []


@pytest.mark.parametrize("fails", [False, True])
async def test_what_must_finish_outlives_its_cancelled_caller(background, fails):
    begun, go_on, finished = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def work():
        begun.set()
        await go_on.wait()
        finished.set()
        if fails:
            raise ValueError("nobody waits for this any more")

    caller = background.start(background.finish(work()), name="caller")
    await begun.wait()
    caller.cancel()
    await asyncio.wait({caller})
    assert not finished.is_set()
    go_on.set()
    await finished.wait()


async def test_the_engine_ends_only_after_what_must_finish():
    steps = []

    async def work():
        for _ in range(3):
            await asyncio.sleep(0)
        steps.append("finished")

    async with Background(lambda *_: None) as background:
        background.launch(background.finish(work()), name="caller")
        await asyncio.sleep(0)  # it has begun
        await asyncio.sleep(0)
    steps.append("closed")
    assert steps == ["finished", "closed"]


async def test_an_error_that_comes_after_the_caller_has_left_is_logged(background, caplog):
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def fail():
        begun.set()
        await go_on.wait()
        raise ValueError("too late")

    caller = background.start(background.finish(fail()), name="caller")
    await begun.wait()
    caller.cancel()
    await asyncio.wait({caller})
    go_on.set()
    await background.finish(asyncio.sleep(0))  # comes after the one that failed
    [record] = caplog.records
    assert "failed after its caller had left" in record.getMessage()
    assert "too late" in str(record.exc_info[1])


async def test_what_never_waits_is_done_at_once(background):
    steps = []

    async def work():
        steps.append("done")
        return asyncio.current_task()

    waiting = background.start(asyncio.sleep(0), name="bystander")
    assert await background.finish(work()) is asyncio.current_task()
    assert steps == ["done"]
    assert not waiting.done()  # nobody else had a turn meanwhile


async def test_work_that_waits_gets_what_is_thrown_into_it(background):
    async def work():
        waiting = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(waiting.set_exception, ValueError("no luck"))
        try:
            await waiting
        except ValueError as error:
            await asyncio.sleep(0)
            return str(error)

    assert await background.finish(work()) == "no luck"


async def test_what_refuses_to_end_is_left_behind_and_named(failures, caplog):
    released = asyncio.Event()

    async def hold_on():
        while not released.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await released.wait()

    async with asyncio.timeout(DEADLINE):
        async with Background(lambda *failure: failures.append(failure), FakeClock()) as background:
            task = background.start(hold_on(), name="stubborn")
            await asyncio.sleep(0)
    assert not task.done()
    assert "stubborn does not end: it is left behind" in caplog.text
    released.set()
    await task
