"""The client of the bridge: its reads are bounded, and no answer is lost with a connection."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest
from prsm_mcp.bridge import Bridge
from prsm_testing.doubles import answers
from prsm_testing.fake_clock import FakeClock

from plugins.prsm_mcp.tests.client import READ_SECONDS, BridgeClient, SilentEngineError
from plugins.prsm_mcp.tests.peers import Relay, WaitingHost
from prsm_core.errors import ControlError

ASKS = {"prompt": "work", "name": "a", "wait": True}


def client_of(endpoint, **options):
    env = endpoint.env
    return BridgeClient(env["PRSM_SOCKET"], env["PRSM_AGENT"], env["PRSM_TOKEN"], **options)


async def test_a_client_lists_and_calls_the_tools(endpoint):
    async with client_of(endpoint) as client:
        assert [tool["name"] for tool in await client.list_tools()] == ["note", "wait"]
        outcome = await client.call("note", {"text": "x"})
        assert (outcome.text, outcome.is_error, outcome.data) == ("noted", False, None)
        wrong = await client.call("nothing", {})
        assert (wrong.is_error, wrong.data["error"]["code"]) == (True, "internal")


async def test_calls_made_at_once_take_turns(endpoint):
    async with client_of(endpoint) as client, asyncio.TaskGroup() as group:
        calls = [group.create_task(client.call("note", {"text": str(n)})) for n in range(4)]
    assert [call.result().text for call in calls] == ["noted"] * 4


async def test_a_client_of_the_loopback_interface(tmp_path, host):
    async with (
        Bridge(tmp_path / "s", FakeClock(autojump=False), unix=False) as bridge,
        bridge.endpoint(host, "a1") as endpoint,
        client_of(endpoint) as client,
    ):
        assert (await client.call("note", {})).text == "noted"


async def test_a_refused_token_and_an_engine_that_is_gone_are_errors_of_their_own(endpoint):
    env = endpoint.env
    async with BridgeClient(env["PRSM_SOCKET"], env["PRSM_AGENT"], "0" * 64) as refused:
        with pytest.raises(ControlError, match="wrong token") as error:
            await refused.call("note", {})
        assert error.value.code == "forbidden"
    async with BridgeClient(env["PRSM_SOCKET"] + "x", "a1", env["PRSM_TOKEN"]) as lost:
        with pytest.raises(ControlError, match="cannot be reached") as error:
            await lost.list_tools()
        assert error.value.code == "no_engine"


async def test_a_call_that_nobody_waits_for_any_more_is_cancelled(endpoint, host):
    async with client_of(endpoint) as client:
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(client.call("wait", {"text": "in vain"}))
            await host.began.get()
            waiting.cancel()
        assert await host.cancelled.get() == "in vain"
        assert (await client.call("note", {})).text == "noted"


async def test_five_minutes_of_silence_reset_the_connection_and_are_an_error(bridge):
    """With a tool that takes tokens, the engine has promised to answer before that."""
    host, clock = WaitingHost(wait_for_message=answers("{}")), FakeClock(autojump=False)
    async with bridge.endpoint(host, "a1") as endpoint, client_of(endpoint, clock=clock) as client:
        async with asyncio.TaskGroup() as group:
            call = group.create_task(raises(SilentEngineError, client.call("wait", {})))
            await host.began.get()
            await clock.advance(READ_SECONDS - 1)
            assert not call.done()
            await clock.advance(1)
        assert "nothing for 300 s" in call.result().message
        assert await host.cancelled.get() == ""  # its connection has gone
        assert (await client.call("note", {})).text == "noted"  # over a new one


async def raises(kind, work):
    with pytest.raises(kind) as error:
        await work
    return error.value


async def test_without_a_tool_that_takes_tokens_a_call_takes_as_long_as_it_takes(endpoint, host):
    clock = FakeClock(autojump=False)
    async with client_of(endpoint, clock=clock) as client, asyncio.TaskGroup() as group:
        call = group.create_task(client.call("wait", {"text": "an hour"}))
        await host.began.get()
        await clock.advance(12 * READ_SECONDS)
        host.release.set()
        assert (await call).text == "waited for an hour"


async def test_a_broken_connection_is_an_error_where_the_call_would_be_made_twice(
    bridge, host, tmp_path
):
    async with (
        bridge.endpoint(host, "a1") as endpoint,
        relayed(endpoint, tmp_path) as line,
        line.client() as client,
    ):
        async with asyncio.TaskGroup() as group:
            call = group.create_task(raises(ControlError, client.call("wait", {})))
            await host.began.get()
            line.cut()
        assert call.result().code == "no_answer"
        assert (await client.call("note", {})).text == "noted"
    assert [call.name for call in host.calls] == ["wait", "note"]


@asynccontextmanager
async def relayed(endpoint, folder):
    """Yield a line to the bridge that can be cut, and makes clients."""
    async with Relay(folder / "line", endpoint.env["PRSM_SOCKET"]) as line:

        def client(**options):
            env = endpoint.env
            return BridgeClient(line.address, env["PRSM_AGENT"], env["PRSM_TOKEN"], **options)

        line.client = client
        yield line


@pytest.mark.requirement("F10")
async def test_what_takes_longer_than_a_read_is_asked_for_again_by_its_token(team):
    outcomes = []

    async def master(agent):
        async with (
            agent.host.mcp_endpoint(patience_s=0.05) as endpoint,
            client_of(endpoint) as client,
        ):
            outcomes.append(await client.call("spawn_child", ASKS))
        await agent.complete()

    async def a(agent):
        await team.seen("tool_call_started", tool="wait_for_message")
        await agent.complete("late")

    result, root = await team.run(master=master, a=a)
    assert result.status == "completed", result
    assert outcomes[0].data["result"]["summary"] == "late"
    assert [child.name for child in root.children] == ["a"]


@pytest.mark.requirement("F10")
async def test_the_answer_of_a_call_whose_read_timed_out_is_given_to_the_next(team):
    outcomes = []
    clock, begun, go_on = FakeClock(autojump=False), asyncio.Event(), asyncio.Event()

    async def master(agent):
        async with (
            agent.host.mcp_endpoint() as endpoint,
            client_of(endpoint, clock=clock) as client,
        ):
            async with asyncio.TaskGroup() as group:
                call = client.call("spawn_child", ASKS)
                lost = group.create_task(raises(SilentEngineError, call))
                await begun.wait()
                await clock.advance(READ_SECONDS)
            assert "make the same call again" in lost.result().hint
            go_on.set()
            outcomes.append(await client.call("spawn_child", ASKS))
        await agent.complete()

    async def a(agent):
        begun.set()
        await go_on.wait()
        await agent.complete("once")

    result, root = await team.run(master=master, a=a)
    assert result.status == "completed", result
    assert outcomes[0].data["result"]["summary"] == "once"
    assert [child.name for child in root.children] == ["a"]


@pytest.mark.parametrize("patience_s", [None, 0.05])
async def test_the_answer_of_a_call_whose_connection_broke_comes_over_a_new_one(
    team, tmp_path, patience_s
):
    """Whether the client knew its token or not."""
    outcomes = []
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def master(agent):
        async with (
            agent.host.mcp_endpoint(patience_s=patience_s) as endpoint,
            relayed(endpoint, tmp_path) as line,
            line.client() as client,
        ):
            async with asyncio.TaskGroup() as group:
                call = group.create_task(client.call("spawn_child", ASKS))
                if patience_s is None:
                    await begun.wait()
                else:
                    await team.seen("tool_call_started", tool="wait_for_message")
                line.cut()
                await line.again.wait()
                go_on.set()
            outcomes.append(call.result())
        await agent.complete()

    async def a(agent):
        begun.set()
        await go_on.wait()
        await agent.complete("once")

    result, root = await team.run(master=master, a=a)
    assert result.status == "completed", result
    assert outcomes[0].data["result"]["summary"] == "once"
    assert [child.name for child in root.children] == ["a"]


async def test_a_token_outlives_the_error_that_its_call_met(team, tmp_path):
    outcomes = []
    clock, begun, go_on = FakeClock(autojump=False), asyncio.Event(), asyncio.Event()

    async def master(agent):
        async with (
            agent.host.mcp_endpoint(patience_s=0.05) as endpoint,
            relayed(endpoint, tmp_path) as line,
            line.client(clock=clock) as client,
        ):
            async with asyncio.TaskGroup() as group:
                call = client.call("spawn_child", ASKS)
                lost = group.create_task(raises(SilentEngineError, call))
                await team.seen("tool_call_started", tool="wait_for_message")
                line.is_held = True  # the engine's answers come no further
                await line.held.wait()
                await clock.advance(READ_SECONDS)
            assert lost.done()
            line.is_held = False
            go_on.set()
            outcomes.append(await client.call("spawn_child", ASKS))
        await agent.complete()

    async def a(agent):
        begun.set()
        await go_on.wait()
        await agent.complete("once")

    result, root = await team.run(master=master, a=a)
    assert result.status == "completed", result
    assert outcomes[0].data["result"]["summary"] == "once"
    assert [child.name for child in root.children] == ["a"]


async def test_a_wait_with_a_timeout_of_its_own_comes_back_when_that_is_over(team):
    outcomes = []

    async def master(agent):
        await agent.spawn("work", name="a")
        async with agent.host.mcp_endpoint() as endpoint, client_of(endpoint) as client:
            outcomes.append(await client.call("wait_for_message", {"timeout": 0.01}))
            go_on.set()
            outcomes.append(await client.call("wait_for_message", {}))
        await agent.complete()

    async def a(agent):
        await go_on.wait()
        await agent.complete("done")

    go_on = asyncio.Event()
    result, _ = await team.run(master=master, a=a)
    assert result.status == "completed", result
    assert [outcome.data["type"] for outcome in outcomes] == ["pending", "task_result"]
