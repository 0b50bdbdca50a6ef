"""What is said to a model within its turn: it has it, or reads it next, whatever ends meanwhile."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from prsm_core.domain.writes import CallClosed, MessagesConsumed
from prsm_core.interfaces.provider import ProviderCapabilities
from tests.engine.deaths import dies_at, go_on, run_to_death
from tests.engine.harness import ScriptedProvider, ScriptedSession
from tests.engine.peer_tools import PeerTools

STEERS = ProviderCapabilities(enforcement="pre_tool", steer=True)
UNREAD = "SELECT count(*) FROM inbox WHERE type != 'task_result' AND consumed_by IS NULL"
READ = "SELECT count(*) FROM inbox WHERE type != 'task_result' AND consumed_by IS NOT NULL"


class LateSession(ScriptedSession):
    """Says only after a while that its vendor has not taken what was said."""

    async def steer(self, text, images=()):
        self.provider.asked.set()
        await self.provider.answered.wait()
        return False


@dataclass
class LateProvider(ScriptedProvider):
    """Answers late whether a turn takes what is said."""

    asked: asyncio.Event = field(default_factory=asyncio.Event)
    answered: asyncio.Event = field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def open_session(self, request, host):
        yield LateSession(self, request, host)


def say_late(team, agent):
    """Have a person say something within the turn, which the vendor does not take in the end."""

    async def answer():
        await team.provider.asked.wait()
        await team.settled()  # all goes on that does not wait for it
        team.provider.answered.set()

    services = agent.session.provider.services
    services.start_soon(team.engine.prompting.prompt, agent.id, "hurry", "inject", name="says")
    services.start_soon(answer, name="answers")


async def test_what_a_vendor_has_not_taken_as_its_turn_ends_is_the_next_prompt(opened):
    async with opened(make_provider=LateProvider) as team:

        async def master(agent):
            if agent.turn == 1:
                say_late(team, agent)
                await team.provider.asked.wait()
                await agent.say("I have done all.")
                return
            await agent.complete(agent.text)

        result = await team.run("do it", master=master)
    assert result.summary == "The user writes:\n> hurry"
    assert team.ledger.one(UNREAD) == 0


async def test_nobody_completes_while_something_is_being_said_to_it(opened):
    async with opened(make_provider=LateProvider) as team:

        async def master(agent):
            say_late(team, agent)
            await team.provider.asked.wait()
            assert await agent.refused("task_complete", summary="done") == "unread_prompt"
            await agent.complete((await agent.call("wait_for_message"))["text"])

        assert (await team.run("do it", master=master)).summary == "hurry"
    assert team.ledger.one(UNREAD) == 0


async def test_nobody_completes_over_what_was_said_while_its_model_spoke(opened):
    async with opened(steers=True) as team:

        async def master(agent):
            assert await team.engine.prompting.prompt(agent.id, "hurry", "inject") == "injected"
            assert await agent.refused("task_complete", summary="done") == "unheard_prompt"
            await agent.complete(await agent.steered.get())

        assert (await team.run("do it", master=master)).summary == "The user writes:\n> hurry"


async def pair(agent):
    """Be a master of two, and wait for both."""
    children = [{"name": name, "prompt": "work"} for name in "ab"]
    await agent.call("spawn_children_parallel", children=children)
    await agent.collect(2)
    await agent.complete()


@pytest.mark.parametrize("kind", [MessagesConsumed, CallClosed])
async def test_a_message_of_a_peer_comes_again_where_its_reading_was_not_written(opened, kind):
    """Its vendor has it, or its call was about to be answered with it, and the engine dies."""
    heard, tools, steers = [], PeerTools(), kind is MessagesConsumed
    team_again = []

    async def a(agent):
        await agent.call("message_send", to="b", text="the tests moved")
        await agent.complete()

    async def b(agent):
        if steers:
            heard.append(await agent.steered.get())
            await agent.hang()
        await team.seen("agent_state_changed", "a", to="completed")
        dies_at(team, CallClosed)
        await agent.call("message_next")

    async def b_again(agent):
        if steers:
            await agent.step_ended()  # its vendor takes what is said from the first response on
            heard.append(await agent.steered.get())
            await team_again[0].seen("message_completed", "b", role="user")
            await agent.step_ended()
        else:  # nothing of the call was written
            assert (await agent.call("message_next"))["message"]["text"] == "the tests moved"
        await agent.complete()

    async def mastered(agent):
        while (await agent.call("wait_for_message"))["type"] != "nothing_left":
            pass
        await agent.complete()

    about = {"tools": tools.table(), "steers": steers}
    if steers:
        about["capabilities"] = STEERS
    async with opened(check=False, **about) as team:
        tools.mail = team.engine.peers
        if steers:
            dies_at(team, MessagesConsumed)
        await run_to_death(team, master=pair, a=a, b=b)
    assert (team.ledger.one(UNREAD), team.ledger.one(READ)) == (1, 0)
    async with opened(**about) as again:
        tools.mail = again.engine.peers
        team_again.append(again)
        assert (await go_on(again, master=mastered, a=a, b=b_again)).status == "completed"
    assert (team.ledger.one(UNREAD), team.ledger.one(READ)) == (0, 1)
    assert again.ledger.one("SELECT count(*) FROM inbox WHERE type = 'peer'") == 1
    if steers:
        assert len(heard) == 2
