"""A turn that goes on in another engine: how its calls are known, and what they are answered."""

from __future__ import annotations

import asyncio

import pytest

from prsm_core.domain.permissions import Allow
from prsm_core.interfaces.provider import ProviderCapabilities
from tests.engine.harness import RuleBroker

THREADS = ProviderCapabilities(enforcement="pre_tool", resume="native")


class SlowBroker(RuleBroker):
    """Lets calls through once the response that made them is over."""

    watches_calls = True

    def __init__(self) -> None:
        super().__init__()
        self.may_go = asyncio.Event()

    async def judge_call(self, request, context):
        await self.may_go.wait()
        return Allow()


async def test_calls_have_the_number_of_the_response_that_made_them(opened):
    """However late they are opened: those of one response go back to the model together."""
    broker = SlowBroker()

    async def master(agent):
        async with asyncio.TaskGroup() as group:
            for _ in range(2):
                group.create_task(agent.outcome("get_budget", {}, step=False))
            await asyncio.sleep(0)  # in its first step each reaches the engine
            await agent.step_ended()
            broker.may_go.set()
        await agent.complete()

    async with opened(broker=broker) as team:
        await team.run("do it", master=master)
    started = team.ledger.events("tool_call_started")
    assert [one["response"] for one in started] == [0, 0, 1]


@pytest.mark.parametrize("has_answer", [True, False])
async def test_a_call_made_again_has_its_effect_again_where_the_thread_has_its_answer(
    opened, has_answer
):
    """A model that has read it means another one; one that may not have is given what is stored."""

    async def spawns(agent):
        await agent.use(input_tokens=1)  # the thread is in the ledger with the next step
        await agent.call("spawn_child", prompt="work")
        await agent.hang()

    async def spawns_again(agent):
        await agent.call("spawn_child", prompt="work")
        await agent.complete()

    async with opened(gives_tokens=True, capabilities=THREADS, check=False) as team:
        running = team.start("do it", master=spawns)
        call = (await team.seen("tool_call_finished", "master")).data["call"]
        await team.engine.shutdown()
        await running
    taken = frozenset({call} if has_answer else ())
    async with opened(gives_tokens=True, capabilities=THREADS, taken=taken, check=False) as team:
        team.provider.behaviours.update(master=spawns_again)
        async with asyncio.timeout(20):
            result = await team.engine.resume()
    assert result.status == "completed"
    spawned = [one for one in team.ledger.events("agent_spawned") if one["parent"]]
    assert len(spawned) == (2 if has_answer else 1)


@pytest.mark.parametrize(("knows", "has_it"), [(True, False), (True, True), (False, False)])
async def test_what_was_heard_is_told_again_where_the_thread_is_known_to_lack_it(
    opened, knows, has_it
):
    """A vendor that goes on before it has written its thread down loses the end in a kill."""

    async def spawns_twice(agent):
        await agent.use(input_tokens=1)  # the thread is in the ledger with the next step
        await agent.call("spawn_child", prompt="work", name="one")
        await agent.call("spawn_child", prompt="work", name="two")
        await agent.hang()

    async with opened(gives_tokens=True, capabilities=THREADS, check=False) as team:
        running = team.start("do it", master=spawns_twice)
        spawned = [await team.seen("agent_spawned", name) for name in ("one", "two")]
        await team.engine.shutdown()
        await running
    calls = [event.data["call"] for event in spawned]
    taken = frozenset(calls if has_it else calls[1:]) if knows else None
    async with opened(gives_tokens=True, capabilities=THREADS, taken=taken, check=False) as team:
        async with asyncio.timeout(20):
            await team.engine.resume()
    prompt = team.provider.contexts["master"][-1].current_message
    told = "" if prompt is None else prompt.content
    assert [f'"{name}"' in told for name in ("one", "two")] == [knows and not has_it, not knows]
