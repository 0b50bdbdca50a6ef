"""A turn that goes on in another engine: how its calls are known, and what they are answered."""

from __future__ import annotations

import asyncio

import pytest

from prsm_core.domain.permissions import Allow
from prsm_core.errors import ProviderNotAvailableError
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


async def calls(agent):
    """Spawn, and hear of it."""
    await agent.use(input_tokens=1)  # the thread is in the ledger with the next step
    await agent.call("spawn_child", prompt="work", name="one")


async def is_prompted(agent):
    """Be in a turn that a child's question began, and say nothing."""
    if agent.turn == 1:
        await agent.call("spawn_child", prompt="work", name="one")


async def asks(agent):
    await agent.call("ask_parent", question="Which way?")
    await agent.complete()


@pytest.mark.requirement("F2")
@pytest.mark.parametrize("has_it", [True, False])
@pytest.mark.parametrize(
    ("how", "lost"), [(calls, '"prompt":"work","name"'), (is_prompted, "Which way?")]
)
async def test_what_a_going_on_has_told_is_told_once(opened, how, lost, has_it):
    """However often an engine dies before the model has said anything since."""
    told = asyncio.Event()

    async def dies(agent):
        await how(agent)
        if how is calls or agent.turn == 2:
            told.set()
            await agent.hang()

    async def go_on(taken, *, is_last=False):
        """Go on until the model has its prompt, and die, or end; return what it was sent."""
        asked = asyncio.Event()

        async def hears(agent):
            asked.set()
            await (agent.complete() if is_last else agent.hang())

        async with opened(gives_tokens=True, capabilities=THREADS, taken=taken, check=False) as at:
            at.provider.behaviours.update(master=hears)
            async with asyncio.TaskGroup() as group, asyncio.timeout(20):
                resumed = group.create_task(at.engine.resume())
                await asked.wait()
                if not is_last:
                    await at.engine.shutdown()
            assert (resumed.result().status == "completed") == is_last
            return at.provider.contexts["master"][-1].current_message

    async with opened(gives_tokens=True, capabilities=THREADS, check=False) as team:
        running = team.start("do it", master=dies, one=asks)
        await told.wait()
        await team.engine.shutdown()
        await running
    first = await go_on(frozenset())
    second = await go_on(frozenset({first.id} if has_it else ()))
    third = await go_on(frozenset({first.id} if has_it else {second.id}), is_last=True)
    assert first.content.count(lost) == 1
    assert second is None if has_it else second.content == first.content
    assert third is None
    again = [one["again"] for one in team.ledger.events("message_completed") if one["again"]]
    assert len(again) == (1 if has_it else 2)


async def killed(opened, *, master, said, **behaviours):
    """Run a team until its master has `said` all, and have its engine die."""
    async with opened(gives_tokens=True, capabilities=THREADS, check=False) as team:
        running = team.start("do it", master=master, **behaviours)
        await said.wait()
        await team.engine.shutdown()
        await running


async def gone_on(opened, taken, does=None, *, refuse=lambda request: None):
    """Go on until the master's model has done something, and die; return what it was sent."""
    done = asyncio.Event()

    async def master(agent):
        if does is not None:
            await does(agent)
        done.set()
        await agent.hang()

    async with opened(gives_tokens=True, capabilities=THREADS, taken=taken, check=False) as team:
        team.provider.behaviours.update(master=master)
        team.provider.refuse = refuse
        async with asyncio.TaskGroup() as group, asyncio.timeout(20):
            group.create_task(team.engine.resume())
            await done.wait()
            await team.engine.shutdown()
        message = team.provider.contexts["master"][-1].current_message
        return message, "" if message is None else message.content


def speaker(*, runs=False, ends=False):
    """Return a behaviour, and the event that it has said all: it acts, and runs a command."""
    said = asyncio.Event()

    async def master(agent):
        await agent.use(input_tokens=1)  # the thread is in the ledger with the next step
        await agent.call("spawn_child", prompt="work")
        if runs:
            await agent.start_tool("v1", command="make")
        if ends:
            await agent.end_tool("v1", result="made it")
            await agent.step_ended()
            await looks(agent)
        said.set()
        await agent.hang()

    return {"master": master, "said": said}


async def looks(agent):
    await agent.use(input_tokens=1)
    await agent.call("get_budget")


SPAWNED, RUN, LOOKED = (f'"{tool}" with' for tool in ("spawn_child", "Bash", "get_budget"))


@pytest.mark.requirement("F2")
@pytest.mark.parametrize("has_it", [True, False])
async def test_what_a_going_on_has_told_is_told_again_where_the_thread_has_lost_it(opened, has_it):
    """A vendor acts on it and dies before it writes it down: it has but its own mark of a call."""
    await killed(opened, **speaker(runs=True))
    first, told = await gone_on(opened, frozenset(), looks)
    assert [told.count(what) for what in (RUN, SPAWNED)] == [1, 1]
    taken = frozenset({first.id} if has_it else ())
    _, told = await gone_on(opened, taken, looks)
    assert [told.count(what) for what in (RUN, SPAWNED)] == ([0, 0] if has_it else [1, 1])
    assert told.count(LOOKED) == 1, "which was never told, and is not in the thread"


@pytest.mark.requirement("F2")
@pytest.mark.parametrize(("knows", "has_it"), [(True, False), (True, True), (False, False)])
async def test_the_end_of_a_command_is_told_where_the_thread_is_known_to_lack_it(
    opened, knows, has_it
):
    """Also once the model has spoken after it: the ledger knows what the thread calls unknown."""
    await killed(opened, **speaker(runs=True, ends=True))
    taken = frozenset({"v1"} if has_it else ()) if knows else None
    _, told = await gone_on(opened, taken)
    assert told.count("made it") == (knows and not has_it)


@pytest.mark.requirement("F2")
@pytest.mark.parametrize(("knows", "has_it"), [(True, False), (True, True), (False, False)])
async def test_a_prompt_that_was_heard_is_told_where_the_thread_is_known_to_lack_it(
    opened, knows, has_it
):
    said = asyncio.Event()

    async def master(agent):
        await is_prompted(agent)
        if agent.turn == 2:
            await looks(agent)
            said.set()
            await agent.hang()

    await killed(opened, master=master, said=said, one=asks)
    async with opened(check=False) as team:
        (prompt,) = [
            one["id"]
            for one in team.ledger.events("message_completed")
            if one["role"] == "user" and "Which way?" in one["text"]
        ]
    taken = frozenset({prompt} if has_it else ()) if knows else None
    _, told = await gone_on(opened, taken)
    assert told.count("Which way?") == (knows and not has_it)


@pytest.mark.requirement("F2")
async def test_what_a_rebuilt_conversation_has_is_not_told_again(opened):
    """It has no ids of it: the thread seems to lack all that was before."""

    def refuse(request):
        if request.resume_token is not None:
            raise ProviderNotAvailableError("its thread is gone", code="resume_failed")

    await killed(opened, **speaker(runs=True, ends=True))
    message, _ = await gone_on(opened, frozenset(), looks, refuse=refuse)
    assert message is None
    _, told = await gone_on(opened, frozenset(), looks)
    assert [told.count(what) for what in (RUN, SPAWNED, "do it")] == [0, 0, 0]
    assert told.count(LOOKED) == 1


@pytest.mark.requirement("F2")
@pytest.mark.parametrize("has_it", [True, False])
async def test_a_call_made_again_has_its_effect_again_once_its_answer_was_told_and_heard(
    opened, has_it
):
    """Told once more of it, since the thread has lost that too, the model may mean the same one."""
    await killed(opened, **speaker())
    first, _ = await gone_on(opened, frozenset(), looks)

    async def spawns_again(agent):
        await agent.call("spawn_child", prompt="work")

    await gone_on(opened, frozenset({first.id} if has_it else ()), spawns_again)
    async with opened(check=False) as team:
        spawned = [one for one in team.ledger.events("agent_spawned") if one["parent"]]
    assert len(spawned) == (2 if has_it else 1)
