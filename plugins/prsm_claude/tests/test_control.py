"""The control channel: who answers what, and what becomes of what nobody can answer."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
from prsm_claude.control import Callbacks, Control, ControlError, Hook
from prsm_testing.doubles import open_services

HOLDS = {"hook_on_failure_supported": True, "hooks_applied": True}


class Lines:
    """What was written to the CLI."""

    def __init__(self):
        self._lines: asyncio.Queue[str] = asyncio.Queue()

    async def write(self, data):
        await self._lines.put(data)

    async def next(self):
        async with asyncio.timeout(20):
            return json.loads(await self._lines.get())

    @property
    def is_empty(self):
        return self._lines.empty()


@asynccontextmanager
async def channel(folder, **callbacks):
    async with open_services(folder / "state") as services:
        lines = Lines()
        control = Control(services, lines.write, Callbacks(**callbacks))
        try:
            yield control, lines
        finally:
            control.close()


def request(subtype, name="r1", **fields):
    return {
        "type": "control_request",
        "request_id": name,
        "request": {"subtype": subtype, **fields},
    }


def answer(name, **fields):
    return {"type": "control_response", "response": {"request_id": name, **fields}}


def ping(server):
    message = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    return request("mcp_message", server_name=server, message=message)


async def allow(given, use_id):
    return {"of": given, "call": use_id}


async def greet(control, lines, told, role=""):
    """Greet the CLI, which answers; return the request that it was sent."""
    async with asyncio.TaskGroup() as group:
        greeting = group.create_task(control.greet(role))
        asked = await lines.next()
        control.take(answer(asked["request_id"], **told))
    return asked["request"], greeting.result()


async def test_the_greeting_registers_the_hooks_and_tells_the_agents_role(tmp_path):
    hooks = {
        "PreToolUse": Hook(run=allow, seconds=9, must_hold=True),
        "PostToolUse": Hook(run=allow, matcher="mcp__.*"),
    }
    async with channel(tmp_path, hooks=hooks) as (control, lines):
        told = {"subtype": "success", "response": {**HOLDS, "models": []}}
        asked, greeting = await greet(control, lines, told, "You are ☃.")
    before, after = {"matcher": None, "timeout": 9, "onFailure": "block"}, {"matcher": "mcp__.*"}
    assert asked == {
        "subtype": "initialize",
        "appendSystemPrompt": "You are ☃.",
        "hooks": {
            "PreToolUse": [{**before, "hookCallbackIds": ["PreToolUse"]}],
            "PostToolUse": [{**after, "hookCallbackIds": ["PostToolUse"]}],
        },
    }
    assert greeting["models"] == []


@pytest.mark.parametrize("told", [{}, {**HOLDS, "hooks_applied": False}])
async def test_a_cli_that_would_let_a_call_pass_where_the_hook_fails_is_not_used(tmp_path, told):
    hooks = {"PreToolUse": Hook(run=allow, must_hold=True)}
    async with channel(tmp_path, hooks=hooks) as (control, lines):
        with pytest.raises(ExceptionGroup) as caught:
            await greet(control, lines, {"subtype": "success", "response": told})
    assert caught.group_contains(ControlError, match="hook")


async def test_a_hook_is_asked_and_its_answer_is_told(tmp_path):
    async with channel(tmp_path, hooks={"PreToolUse": Hook(run=allow)}) as (control, lines):
        asked = {"callback_id": "PreToolUse", "input": {"a": 1}, "tool_use_id": "t1"}
        control.take(request("hook_callback", "r9", **asked))
        told = await lines.next()
    given = {"of": {"a": 1}, "call": "t1"}
    assert told == answer("r9", subtype="success", response=given)


async def test_a_hook_that_fails_is_told_as_a_failure(tmp_path):
    """The CLI then forbids the call: see the test of the real one."""

    async def fails(_given, _use_id):
        raise RuntimeError("no idea")

    async with channel(tmp_path, hooks={"PreToolUse": Hook(run=fails)}) as (control, lines):
        control.take(request("hook_callback", callback_id="PreToolUse"))
        assert await lines.next() == answer("r1", subtype="error", error="no idea")


async def test_our_own_tools_are_asked_and_no_other_server(tmp_path):
    def serve(message):
        return {"id": message["id"], "result": {}}

    async with channel(tmp_path, serve=serve) as (control, lines):
        control.take(ping("prsm"))
        served = await lines.next()
        control.take(ping("another"))
        refused = await lines.next()
    given = {"mcp_response": {"id": 1, "result": {}}}
    assert served == answer("r1", subtype="success", response=given)
    assert refused["response"]["subtype"] == "error"


@pytest.mark.parametrize(
    "odd",
    [
        request("can_use_tool", tool_name="Bash", input={}),
        request("of_tomorrow"),
        request("hook_callback", callback_id="nobody's"),
        request("mcp_message", server_name="prsm", message={}),
    ],
)
async def test_what_nobody_answers_is_refused(tmp_path, odd):
    async with channel(tmp_path) as (control, lines):
        control.take(odd)
        assert (await lines.next())["response"]["subtype"] == "error"


async def test_a_request_that_the_cli_takes_back_is_not_answered(tmp_path):
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def waits(_given, _use_id):
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async with channel(tmp_path, hooks={"PreToolUse": Hook(run=waits)}) as (control, lines):
        control.take(request("hook_callback", callback_id="PreToolUse"))
        async with asyncio.timeout(20):
            await begun.wait()
            control.take({"type": "control_cancel_request", "request_id": "r1"})
            await cancelled.wait()
        assert lines.is_empty


async def test_whoever_asks_a_cli_that_refuses_is_told_why(tmp_path):
    async with channel(tmp_path) as (control, lines):
        with pytest.raises(ExceptionGroup) as caught:
            await greet(control, lines, {"subtype": "error", "error": "not today"})
    assert caught.group_contains(ControlError, match="not today")


async def test_nobody_waits_for_a_cli_that_has_ended(tmp_path):
    async with channel(tmp_path) as (control, lines):
        asking = asyncio.ensure_future(control.ask({"subtype": "interrupt"}))
        await lines.next()
        control.end(ControlError("it is gone"))
        for waiting in (asking, control.ask({"subtype": "interrupt"})):
            async with asyncio.timeout(20):
                with pytest.raises(ControlError, match="it is gone"):
                    await waiting


async def test_an_answer_that_nobody_waits_for_changes_nothing(tmp_path):
    async with channel(tmp_path) as (control, lines):
        control.take(answer("prsm-7", subtype="success"))
        assert lines.is_empty
