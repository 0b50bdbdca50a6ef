"""What a plugin gives at once is taken at once; what has to be awaited gets a task of its own."""

from __future__ import annotations

import asyncio
import inspect

import pytest

from prsm_core.plugins.guard import Guest, PluginFaultError

GUEST = Guest("permission check", "mine")


def now():
    return [asyncio.current_task()]


async def later():
    return [asyncio.current_task()]


async def breaks_later():
    raise KeyError("later")


def breaks():
    raise KeyError("at once")


def cancels_itself():
    raise asyncio.CancelledError


@pytest.mark.parametrize(
    "answer", [None, "word", {"a": 1}, later], ids=["nothing", "text", "object", "function"]
)
async def test_what_is_given_at_once_is_the_answer(answer):
    assert await GUEST.asked(1.0, "its answer", lambda: answer) is answer


async def test_only_what_has_to_be_awaited_gets_a_task_of_its_own():
    me = asyncio.current_task()
    assert await GUEST.asked(1.0, "its answer", now) == [me]
    assert await GUEST.asked(1.0, "its answer", later) != [me]
    assert await GUEST.asked(1.0, "its answer", lambda: later()) != [me]


@pytest.mark.requirement("E24")
@pytest.mark.parametrize("call", [breaks, cancels_itself, breaks_later])
async def test_what_fails_is_told_as_the_plugins_fault_either_way(call):
    with pytest.raises(PluginFaultError, match="permission check mine failed in its answer"):
        await GUEST.asked(1.0, "its answer", call)


@pytest.mark.parametrize("call", [breaks, breaks_later])
async def test_an_error_that_is_an_answer_passes_either_way(call):
    with pytest.raises(KeyError):
        await GUEST.asked(None, "its answer", call, (KeyError,))


async def test_what_is_cancelled_before_it_begins_is_not_left_unawaited():
    made = []

    def answer():
        made.append(later())
        return made[0]

    asking = asyncio.get_running_loop().create_task(GUEST.asked(None, "its answer", answer))
    await asyncio.sleep(0)  # it has made a task that has not begun
    assert inspect.getcoroutinestate(made[0]) == inspect.CORO_CREATED
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert inspect.getcoroutinestate(made[0]) == inspect.CORO_CLOSED
