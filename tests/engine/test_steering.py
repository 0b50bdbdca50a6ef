"""What is said to a model within its turn: it has it, or reads it next, whatever ends meanwhile."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from prsm_testing.sim.world import PeerTools

from prsm_core.domain.writes import CallClosed, MessagesConsumed
from prsm_core.interfaces.provider import ProviderCapabilities
from tests.engine.deaths import dies_at, go_on, run_to_death
from tests.engine.harness import ScriptedProvider, ScriptedSession

STEERS = ProviderCapabilities(enforcement="pre_tool", steer=True)
UNREAD = "SELECT count(*) FROM inbox WHERE type != 'task_result' AND consumed_by IS NULL"
READ = "SELECT count(*) FROM inbox WHERE type != 'task_result' AND consumed_by IS NOT NULL"


class LateSession(ScriptedSession):
    """Says only after a while that its vendor has not taken what was said."""

    def __init__(self, provider: LateProvider, request, host) -> None:
        super().__init__(provider, request, host)
        self._late = provider

    async def steer(self, text, images=()):
        self._late.asked.set()
        await self._late.answered.wait()
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


async def collects(agent):
    """Be a master that goes on, until all below it have ended."""
    while (await agent.call("wait_for_message"))["type"] != "nothing_left":
        pass
    await agent.complete()


async def writes(agent):
    await agent.call("message_send", to="b", text="the tests moved")
    await agent.complete()


@asynccontextmanager
async def writing(opened, **fields):
    """Open a team whose agents have tools to write to each other."""
    tools = PeerTools()
    async with opened(tools=tools.table(), **fields) as team:
        tools.mail = team.engine.peers
        yield team


async def test_a_vendor_is_told_again_what_it_was_not_written_to_have_taken(opened):
    """The engine dies once its vendor has the message, and before the ledger says so."""
    heard, about = [], {"steers": True, "capabilities": STEERS}

    async def b(agent):
        heard.append(await agent.steered.get())
        await agent.hang()

    async def b_again(agent):
        await agent.step_ended()  # its vendor takes what is said from the first response on
        heard.append(await agent.steered.get())
        await again.seen("message_completed", "b", role="user")
        await agent.step_ended()
        await agent.complete()

    async with writing(opened, check=False, **about) as team:
        dies_at(team, MessagesConsumed)
        await run_to_death(team, master=pair, a=writes, b=b)
    assert (team.ledger.one(UNREAD), team.ledger.one(READ)) == (1, 0)
    async with writing(opened, **about) as again:
        assert (await go_on(again, master=collects, a=writes, b=b_again)).status == "completed"
    assert (team.ledger.one(UNREAD), team.ledger.one(READ)) == (0, 1)
    assert heard == ["a, another agent of this run, writes:\n> the tests moved"] * 2


async def test_a_call_that_took_a_message_and_was_not_answered_takes_it_again(opened):
    async def b(agent):
        await team.seen("agent_state_changed", "a", to="completed")
        dies_at(team, CallClosed)
        await agent.call("message_next")

    async def b_again(agent):
        assert (await agent.call("message_next"))["message"]["text"] == "the tests moved"
        await agent.complete()

    async with writing(opened, check=False) as team:
        await run_to_death(team, master=pair, a=writes, b=b)
    assert (team.ledger.one(UNREAD), team.ledger.one(READ)) == (1, 0)
    async with writing(opened) as again:
        assert (await go_on(again, master=collects, a=writes, b=b_again)).status == "completed"
    assert (team.ledger.one(UNREAD), team.ledger.one(READ)) == (0, 1)
