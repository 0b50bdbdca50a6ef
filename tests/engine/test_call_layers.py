"""How many functions stand between a host that is called and the handler of the tool."""

from __future__ import annotations

import asyncio

import pytest

MAX_BETWEEN = 1
HANDLERS = {"wait_for_message": "_wait"}  # by tool, where the coroutine has another name


def awaited(task) -> list[str]:
    """Return the names of the functions that a task stands in, the outermost first."""
    names, coroutine = [], task.get_coro()
    while hasattr(coroutine, "cr_await"):
        names.append(coroutine.cr_code.co_name)
        coroutine = coroutine.cr_await
    return names


@pytest.mark.parametrize("tool", ["wait_for_message", "ask_user", "ask_parent"])
async def test_few_functions_stand_between_the_host_and_the_handler(opened, report, tool):
    """Each costs on every call; what they do is the call's life, and that of its task."""
    seen: list[str] = []

    async def call(agent):
        arguments = {} if tool == "wait_for_message" else {"question": "?"}
        await agent.host.call_tool(tool, arguments)

    async def child(agent):
        if tool == "wait_for_message":
            await agent.hang()
        task = team.engine.start_soon(call(agent), name="call")
        await team.seen("tool_call_started", agent.name, tool=tool)
        seen.extend(awaited(task))
        task.cancel()
        await agent.complete()

    async def master(agent):
        await agent.spawn(name="a")
        if tool == "wait_for_message":
            task = team.engine.start_soon(call(agent), name="call")
            await team.seen("tool_call_started", agent.name, tool=tool)
            seen.extend(awaited(task))
            task.cancel()
            await team.manager.kill_agent(team["a"].agent_id)
        await asyncio.wait({team["a"].ended()})
        await agent.complete()

    async with opened(interactive=True) as team:  # a person is there, and says nothing
        await team.run("do it", master=master, a=child)
    between = seen[seen.index("call") + 1 : seen.index(HANDLERS.get(tool, tool))]
    report(f"{tool}: between host and handler: {', '.join(between)}")
    assert len(between) <= MAX_BETWEEN
