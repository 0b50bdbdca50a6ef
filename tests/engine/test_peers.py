"""Messages between agents that are neither parent nor child: sent, read once, waited for."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest
from prsm_testing.fake_clock import FakeClock
from prsm_testing.sim.world import PeerTools

from prsm_core.domain.messages import MessageType
from prsm_core.engine.agents import peers
from prsm_core.interfaces.provider import ProviderCapabilities

STEERS = ProviderCapabilities(enforcement="pre_tool", steer=True)
WORKERS = frozenset({"worker"})
LEFT = "SELECT count(*) FROM inbox WHERE type = 'peer' AND consumed_by IS NULL"
READ = "SELECT count(*) FROM inbox WHERE type = 'peer' AND consumed_by IS NOT NULL"


@pytest.fixture
def writing(opened):
    """Open a team whose agents have tools to write to each other."""

    @asynccontextmanager
    async def open_(*, takes=frozenset(), sends=None, **fields):
        tools = PeerTools()
        given = {} if sends is None else {"sends": sends}
        async with opened(tools=tools.table(takes=takes, **given), **fields) as team:
            tools.mail = team.engine.peers
            yield team

    return open_


async def two(agent):
    """Be a master of two that begin together, and wait for both."""
    children = [{"name": name, "prompt": "work"} for name in "ab"]
    await agent.call("spawn_children_parallel", children=children)
    await agent.collect(2)
    await agent.complete()


async def test_a_peer_is_prompted_with_what_was_written_to_it_once_its_turn_ends(writing):
    async with writing() as team:
        heard = []

        async def a(agent):
            await agent.call("message_send", to="b", text="the tests moved")
            await agent.call("message_send", to=team["b"].agent_id, text="to tests/old")
            await agent.complete()

        async def b(agent):
            if agent.turn == 1:
                await team.seen("agent_state_changed", "a", to="completed")
                return
            heard.append(agent.text)
            await agent.complete()

        await team.run("do it", master=two, a=a, b=b)
    assert heard == [
        "a, another agent of this run, writes:\n> the tests moved\n\n"
        "a, another agent of this run, writes:\n> to tests/old"
    ]
    assert team.ledger.one(LEFT) == 0
    routed = [e for e in team.ledger.events("message_routed") if e["kind"] == MessageType.PEER]
    assert [(e["from"], e["to"]) for e in routed] == [(team["a"].agent_id, team["b"].agent_id)] * 2


async def test_a_running_turn_is_told_where_its_vendor_takes_that(writing):
    async with writing(steers=True, capabilities=STEERS) as team:

        async def a(agent):
            await agent.call("message_send", to="b", text="stop")
            await agent.complete()

        async def b(agent):
            assert agent.turn == 1
            heard = await agent.steered.get()
            await team.seen("message_completed", "b", role="user")
            await agent.step_ended()  # and hears it
            await agent.complete(heard)

        await team.run("do it", master=two, a=a, b=b)
    assert team["b"].result.summary == "a, another agent of this run, writes:\n> stop"
    assert team.ledger.one(READ) == 1


async def test_nobody_completes_over_what_its_vendor_was_just_given(writing):
    """The model has not seen it: its vendor shows it with the answer to this call."""
    async with writing(steers=True, capabilities=STEERS) as team:

        async def a(agent):
            await agent.call("message_send", to="b", text="stop")
            await agent.complete()

        async def b(agent):
            await agent.steered.get()
            assert await agent.refused("task_complete", summary="done") == "unheard_prompt"
            await agent.complete()

        assert (await team.run("do it", master=two, a=a, b=b)).status == "completed"


async def test_an_idle_agent_is_woken(writing):
    """It waits between two turns, for a child that takes long."""
    async with writing() as team:
        is_idle = asyncio.Event()

        async def a(agent):
            await is_idle.wait()
            await agent.call("message_send", to="b", text="wake up")
            await agent.complete()

        async def b(agent):
            if agent.turn == 1:
                await agent.spawn(name="slow")
                return
            if agent.text.endswith("> wake up"):
                await agent.call("message_send", to="slow", text="enough")
            await agent.collect()
            await agent.complete()

        async def slow(agent):
            await team.seen("agent_state_changed", "b", to="waiting_for_child")
            is_idle.set()
            assert (await agent.call("message_next"))["message"]["text"] == "enough"
            await agent.complete()

        result = await team.run("do it", master=two, a=a, b=b, slow=slow)
    assert result.status == "completed"
    assert team.ledger.one(READ) == 2


async def test_who_takes_messages_itself_is_not_prompted_with_them(writing):
    async with writing(takes=WORKERS, steers=True, capabilities=STEERS) as team:
        heard = []

        async def a(agent):
            await agent.call("message_send", to="b", text="one")
            await agent.call("message_send", to="b", text="two")
            await agent.complete()

        async def b(agent):
            await team.seen("agent_state_changed", "a", to="completed")
            heard.extend([(await agent.call("message_next", seconds=0))["message"]])
            await agent.complete()

        await team.run("do it", master=two, a=a, b=b)
        turns = [turn["agent"] for turn in team.ledger.events("turn_started")]
        assert turns.count("b") == 1
    assert [(said["from"], said["text"]) for said in heard] == [("a", "one")]
    assert (team.ledger.one(READ), team.ledger.one(LEFT)) == (1, 1)


async def test_a_message_ends_a_wait_for_any_message(writing):
    async with writing() as team:

        async def a(agent):
            await team.seen("agent_state_changed", "b", to="waiting_for_child")
            await agent.call("message_send", to="b", text="go on")
            await agent.complete()

        async def b(agent):
            heard = await agent.call("wait_for_message")
            assert (heard["type"], heard["name"], heard["text"]) == ("peer", "a", "go on")
            await agent.complete()

        result = await team.run("do it", master=two, a=a, b=b)
    assert result.status == "completed"
    assert not team.ledger.events("deadlock_detected")


async def test_nobody_completes_over_a_message_that_it_was_not_told(writing):
    async with writing() as team:

        async def a(agent):
            await agent.call("message_send", to="b", text="mind the tests")
            await agent.complete()

        async def b(agent):
            await team.seen("agent_state_changed", "a", to="completed")
            assert await agent.refused("task_complete", summary="done") == "unread_prompt"
            assert (await agent.call("wait_for_message"))["text"] == "mind the tests"
            await agent.complete()

        assert (await team.run("do it", master=two, a=a, b=b)).status == "completed"


REFUSED = {
    "unknown": ("c", "hi", "unknown_agent"),
    "itself": ("a", "hi", "own_message"),
    "ended": ("gone", "hi", "agent_ended"),
    "blank": ("b", " \n", "blank"),
    "too long": ("b", "x" * (peers.TEXT_LIMIT + 1), "message_too_long"),
}


@pytest.mark.parametrize("what", REFUSED)
async def test_a_message_that_nobody_could_read_is_refused_by_name(writing, what):
    to, text, code = REFUSED[what]
    async with writing() as team:

        async def master(agent):
            await agent.spawn(name="gone")
            await agent.collect()
            await two(agent)

        async def a(agent):
            outcome = await agent.outcome("message_send", {"to": to, "text": text})
            assert outcome.data["error"]["code"] == code
            if to != "b":
                assert "'b'" in repr(outcome.data["error"]["hint"].split(", ")) or (
                    "b" in outcome.data["error"]["hint"]
                )
            await agent.call("message_send", to="b", text="done")
            await agent.complete()

        async def b(agent):
            assert (await agent.call("message_next"))["message"]["text"] == "done"
            await agent.complete()

        result = await team.run("do it", master=master, a=a, b=b)
    assert result.status == "completed"
    assert team.ledger.one(READ) == 1


async def test_a_full_mailbox_refuses_and_loses_nothing(writing):
    async with writing(takes=WORKERS) as team:

        async def a(agent):
            for number in range(peers.UNREAD_LIMIT):
                await agent.call("message_send", to="b", text=str(number))
            outcome = await agent.outcome("message_send", {"to": "b", "text": "one more"})
            assert outcome.data["error"]["code"] == "mailbox_full"
            assert "the mailbox of b is full" in outcome.data["error"]["message"]
            await agent.complete()

        async def b(agent):
            await team.seen("agent_state_changed", "a", to="completed")
            for number in range(peers.UNREAD_LIMIT):
                heard = await agent.call("message_next", seconds=0)
                assert heard["message"]["text"] == str(number)
            assert await agent.call("message_next", seconds=0) == {"message": None}
            await agent.complete()

        assert (await team.run("do it", master=two, a=a, b=b)).status == "completed"


async def test_texts_that_are_long_together_fill_a_mailbox_too(writing):
    async with writing(takes=WORKERS) as team:

        async def a(agent):
            text = "x" * peers.TEXT_LIMIT
            for _ in range(peers.UNREAD_BYTES // peers.TEXT_LIMIT):
                await agent.call("message_send", to="b", text=text)
            assert await agent.refused("message_send", to="b", text="y") == "mailbox_full"
            await agent.complete()

        async def b(agent):
            await team.seen("agent_state_changed", "a", to="completed")
            await agent.complete()

        await team.run("do it", master=two, a=a, b=b)


async def test_a_wait_for_messages_ends_after_its_time(writing):
    async with writing(clock=FakeClock()) as team:

        async def a(agent):
            assert await agent.call("message_next", seconds=30) == {"message": None}
            await agent.complete()

        async def b(agent):
            await agent.collect()

        async def master(agent):
            await agent.spawn(name="a")
            await agent.collect()
            await agent.complete()

        assert (await team.run("do it", master=master, a=a)).status == "completed"
        assert team.clock.now() >= 30


async def test_a_wait_ends_once_nobody_is_left_who_could_write(writing):
    async with writing(sends=WORKERS, engine={"max_agent_depth": 1}) as team:

        async def a(agent):
            await team.seen("agent_state_changed", "b", to="waiting_for_child")
            await agent.complete()

        async def b(agent):
            assert await agent.call("message_next") == {"message": None}
            await agent.complete()

        result = await team.run("do it", master=two, a=a, b=b)
    assert result.status == "completed"


async def test_a_wait_in_a_knot_ends_without_a_message_once_and_then_costs_the_life(writing):
    """The deepest and youngest, b, is told first; a goes on once there is nobody but its master."""
    async with writing() as team:

        async def a(agent):
            assert await agent.call("message_next") == {"message": None}
            await agent.complete("a went on")

        async def b(agent):
            assert await agent.call("message_next") == {"message": None}
            await agent.call("message_next")

        result = await team.run("do it", master=two, a=a, b=b)
    assert result.status == "completed"
    assert team["a"].result.summary == "a went on"
    assert team["b"].result.error_kind == "deadlock"
    knots = team.ledger.events("deadlock_detected")
    assert sorted(knot["action"] for knot in knots) == ["unanswered", "unanswered", "victim"]
    names = {team[name].agent_id for name in ("master", "a", "b")}
    assert set(knots[0]["agents"]) == names
    assert all(set(wait["targets"]) <= names - {wait["agent"]} for wait in knots[0]["waits"])


async def test_who_waits_for_a_message_that_may_come_is_in_no_knot(writing):
    """All kin of it waits; somebody far away in the tree still runs, and writes in the end."""
    async with writing() as team:

        async def a(agent):
            await agent.spawn(name="deep")
            await agent.collect()
            await agent.complete()

        async def deep(agent):
            assert (await agent.call("message_next"))["message"]["text"] == "at last"
            await agent.complete()

        async def b(agent):
            await team.seen("agent_state_changed", "deep", to="waiting_for_child")
            await team.settled()
            await agent.call("message_send", to="deep", text="at last")
            await agent.complete()

        result = await team.run("do it", master=two, a=a, b=b, deep=deep)
    assert result.status == "completed"
    assert not team.ledger.events("deadlock_detected")


async def test_who_waits_for_any_message_is_in_no_knot_with_a_peer_that_is_born_later(writing):
    """The first agent that can write at all begins while the others wait already."""
    readers = frozenset({"reviewer"})
    async with writing(sends=readers) as team:

        async def master(agent):
            await agent.spawn(name="a")
            await team.seen("agent_state_changed", "a", to="waiting_for_child")
            await agent.spawn(name="r", role="reviewer")
            await agent.collect(2)
            await agent.complete()

        async def a(agent):
            assert (await agent.call("wait_for_message"))["text"] == "late"
            await agent.complete()

        async def r(agent):
            await team.seen("agent_state_changed", "master", to="waiting_for_child")
            await agent.call("message_send", to="a", text="late")
            await agent.complete()

        result = await team.run("do it", master=master, a=a, r=r)
    assert result.status == "completed"
    assert not team.ledger.events("deadlock_detected")
