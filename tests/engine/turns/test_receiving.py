"""A call that waits for a message: it takes the oldest that fits, and ends where it is in vain."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from prsm_core.domain.agents import AgentState
from prsm_core.domain.messages import MessageType, RoutedMessage
from prsm_core.engine.turns.call import Call
from prsm_core.engine.turns.waits import MessageWaitOf
from prsm_core.messaging.router import MessageRouter


def message(number, kind=MessageType.USER_PROMPT, **fields):
    return RoutedMessage(message_id=str(number), type=kind, source="s", target="a", **fields)


def anything(_):
    return True


def never():
    return False


class Calls:
    """The calls of a turn of agent `a`, as one of them sees them: what waits need of it."""

    def __init__(self, router):
        self.parts = SimpleNamespace(router=router)
        self.life = SimpleNamespace(record=SimpleNamespace(agent_id="a"), moved=lambda: None)
        self.turn = SimpleNamespace(calls_changed=lambda: None)


@pytest.fixture
def router():
    router = MessageRouter()
    router.register_agent("a")
    return router


@pytest.fixture
def receive(router):
    """Return what a new call of the agent receives."""

    def receive(match=anything, is_vain=never):
        calls: Any = Calls(router)
        call = Call(id="c", name="wait_for_message", args={}, calls=calls, opened=True)
        wait = MessageWaitOf(
            state=AgentState.WAITING_FOR_CHILD,
            on="a message",
            targets=tuple,
            ready=never,
            fits=match,
            is_vain=is_vain,
        )
        return call.receive(wait)

    return receive


@pytest.fixture
def receiving(receive):
    """Start to receive, and let it wait."""

    async def start(*args):
        task = asyncio.ensure_future(receive(*args))
        await asyncio.sleep(0)
        return task

    return start


@pytest.mark.requirement("E29")
async def test_a_receive_takes_the_oldest_that_matches_and_leaves_the_others(router, receive):
    router.send(message(1))
    router.send(message(2, MessageType.ANSWER, correlation_id="x"))
    router.send(message(3, MessageType.ANSWER, correlation_id="y"))
    assert (await receive(lambda m: m.correlation_id == "y")).message_id == "3"
    assert [m.message_id for m in router.unread("a")] == ["1", "2"]
    assert (await receive()).message_id == "1"


@pytest.mark.requirement("E29")
async def test_a_receive_waits_for_a_message_that_matches(router, receiving):
    task = await receiving(lambda m: m.type is MessageType.ANSWER)
    router.send(message(1))
    await asyncio.sleep(0)
    assert not task.done()
    router.send(message(2, MessageType.ANSWER))
    assert (await task).message_id == "2"


async def test_a_message_goes_to_one_of_several_receives(router, receiving):
    first, second = await receiving(), await receiving()
    router.send(message(1))
    router.send(message(2))
    assert {(await first).message_id, (await second).message_id} == {"1", "2"}


async def test_a_receive_ends_without_a_message_once_it_is_in_vain(router, receiving):
    over = False
    task = await receiving(anything, lambda: over)
    router.wake("a")
    await asyncio.sleep(0)
    assert not task.done()
    over = True
    router.wake("a")
    assert await task is None


async def test_a_message_that_is_there_comes_before_the_reason_to_end(router, receive):
    router.send(message(1))
    assert (await receive(anything, lambda: True)).message_id == "1"


async def test_closing_a_mailbox_ends_its_receives(router, receive, receiving):
    task = await receiving()
    router.unregister_agent("a")
    assert await task is None
    assert await receive() is None


async def test_a_new_life_receives_nothing_of_the_old_one(router, receiving):
    router.send(message(1))
    task = await receiving(lambda m: m.message_id == "3")
    router.register_agent("a", 2)
    router.send(message(2, incarnation=1))
    assert router.unread("a") == ()
    router.send(message(3, incarnation=2))
    assert (await task).message_id == "3"


async def test_a_cancelled_receive_leaves_no_waiter_behind(router, receiving):
    task = await receiving()
    assert router.is_awaited("a")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not router.is_awaited("a")
    router.send(message(1))
    assert [m.message_id for m in router.unread("a")] == ["1"]


async def test_a_claim_that_is_given_back_wakes_whoever_waits(router, receiving):
    router.send(message(1))
    assert router.claim("a", anything).message_id == "1"
    task = await receiving()
    router.unclaim("a", ["1"])
    assert (await task).message_id == "1"
