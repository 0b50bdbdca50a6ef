"""A session against a scripted app-server: what the real one does rarely or never."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from prsm_codex.rpc import RpcError
from prsm_testing.doubles import (
    RecordingHost,
    completes,
    only,
    run_turn,
    session_request,
    turn_context,
    until,
)
from prsm_testing.fake_clock import FakeClock
from prsm_testing.provider_scene import streaming

from plugins.prsm_codex.tests.puppet import THREAD, TURN, open_fake, open_session
from prsm_core.domain.permissions import Allow, Deny
from prsm_core.domain.tools import McpServer, ToolOutcome
from prsm_core.domain.turns import (
    ErrorKind,
    Notice,
    StopReason,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
    UsageReported,
)
from prsm_core.errors import OrchestrationError, ProviderNotAvailableError


def start(session, text="hi", **changes):
    return asyncio.ensure_future(run_turn(session, text, **changes))


def shell(codex, number, command, **params):
    codex.ask(
        number,
        "item/commandExecution/requestApproval",
        itemId=f"item-{number}",
        command=command,
        **params,
    )


async def test_an_unknown_request_is_refused_and_never_left_open(tmp_path):
    async with open_session(tmp_path) as (session, codex):
        turn = start(session)
        await codex.sent("turn/start")
        codex.ask(7, "attestation/generate")
        codex.ask(8, "execCommandApproval", command=["ls"])
        codex.say({"id": 9, "method": "item/tool/call", "params": {"threadId": "other"}})
        for number in (7, 8, 9):
            assert "error" in await codex.answer(number)
        codex.complete()
        await turn


@pytest.mark.requirement("N3")
@pytest.mark.parametrize("effort", ["low", "high", None])
async def test_a_turn_thinks_as_hard_as_its_context_says(tmp_path, effort):
    config = None if effort is None else {"effort": effort}
    async with open_session(tmp_path) as (session, codex):
        turn = start(session, thinking_config=config)
        assert (await codex.sent("turn/start"))["params"].get("effort") == effort
        codex.complete()
        await turn


async def test_more_permissions_are_never_granted(tmp_path):
    async with open_session(tmp_path) as (session, codex):
        turn = start(session)
        await codex.sent("turn/start")
        codex.ask(7, "item/permissions/requestApproval", permissions={"network": {}})
        assert (await codex.answer(7))["result"] == {"permissions": {}}
        codex.complete()
        await turn


@pytest.mark.parametrize(("denied", "action"), [(False, "accept"), (True, "decline")])
async def test_an_mcp_tool_is_asked_for_by_its_canonical_name(tmp_path, denied, action):
    host = RecordingHost(verdict=lambda _: Deny("no") if denied else Allow())
    meta = {"codex_approval_kind": "mcp_tool_call", "tool_name": "find", "tool_params": {"q": 1}}
    async with open_session(tmp_path, host) as (session, codex):
        turn = start(session)
        await codex.sent("turn/start")
        codex.ask(7, "mcpServer/elicitation/request", serverName="docs", _meta=meta)
        assert (await codex.answer(7))["result"]["action"] == action
        codex.complete()
        await turn
    (asked,) = host.requests
    assert (asked.tool, asked.arguments, asked.command) == ("mcp__docs__find", {"q": 1}, None)


async def test_a_form_of_an_mcp_server_is_declined(tmp_path):
    host = RecordingHost()
    async with open_session(tmp_path, host) as (session, codex):
        turn = start(session)
        await codex.sent("turn/start")
        codex.ask(7, "mcpServer/elicitation/request", serverName="docs", mode="form")
        assert (await codex.answer(7))["result"]["action"] == "decline"
        codex.complete()
        await turn
    assert host.requests == []


async def test_input_to_a_terminal_is_declined(tmp_path):
    host = RecordingHost()
    async with open_session(tmp_path, host) as (session, codex):
        turn = start(session)
        await codex.sent("turn/start")
        shell(codex, 7, "rm x", kind="writeStdin")
        assert (await codex.answer(7))["result"] == {"decision": "decline"}
        codex.complete()
        await turn
    assert host.requests == []


@pytest.mark.parametrize("extra", ["additionalPermissions", "networkApprovalContext"])
async def test_a_command_that_asks_for_more_than_itself_is_declined(tmp_path, extra):
    host = RecordingHost()
    async with open_session(tmp_path, host) as (session, codex):
        turn = start(session)
        await codex.sent("turn/start")
        shell(codex, 7, "ls", **{extra: {"host": "example.org"}})
        assert (await codex.answer(7))["result"] == {"decision": "decline"}
        codex.complete()
        await turn
    assert host.requests == []


async def test_a_refused_mcp_tool_is_explained_in_the_turn(tmp_path):
    host = RecordingHost(verdict=lambda _: Deny("not here"))
    meta = {"codex_approval_kind": "mcp_tool_call", "tool_name": "find"}
    async with open_session(tmp_path, host) as (session, codex):
        turn = start(session)
        await codex.sent("turn/start")
        codex.ask(7, "mcpServer/elicitation/request", serverName="docs", _meta=meta)
        steered = (await codex.sent("turn/steer"))["params"]["input"][0]["text"]
        codex.complete()
        await turn
    assert steered == "[prsm] mcp__docs__find was refused: not here"


async def test_a_change_of_unknown_files_is_declined(tmp_path):
    async with open_session(tmp_path) as (session, codex):
        turn = start(session)
        await codex.sent("turn/start")
        codex.ask(7, "item/fileChange/requestApproval", itemId="never-started")
        assert (await codex.answer(7))["result"] == {"decision": "decline"}
        codex.complete()
        await turn


async def test_after_task_complete_everything_else_is_refused(tmp_path):
    forever = asyncio.Event()

    async def waits(**_):
        await forever.wait()
        return ToolOutcome(text="too late")

    host = RecordingHost(task_complete=completes, waits=waits)
    async with open_session(tmp_path, host) as (session, codex):
        turn = start(session)
        await codex.sent("turn/start")
        codex.ask(1, "item/tool/call", callId="c1", tool="waits", arguments={})
        codex.ask(2, "item/tool/call", callId="c2", tool="task_complete", arguments={})
        assert (await codex.answer(1))["result"]["success"] is False
        codex.ask(3, "item/tool/call", callId="c3", tool="waits", arguments={})
        shell(codex, 4, "ls")
        assert (await codex.answer(3))["result"]["success"] is False
        assert (await codex.answer(4))["result"] == {"decision": "decline"}
        await codex.sent("turn/interrupt")
        codex.tell("thread/tokenUsage/updated", tokenUsage={"total": {"totalTokens": 5}})
        codex.complete("interrupted")
        events = await turn
        forever.set()
    assert events[-1].stop_reason is StopReason.END_TURN
    assert [call.name for call in host.calls] == ["waits", "task_complete"]
    assert [report.usage.total_tokens for report in only(UsageReported, events)] == [5]


async def complete_task(codex, *, tells_raw):
    """Ask for the call that ends the turn, in a response that goes on behind it."""
    await codex.sent("turn/start")
    if tells_raw:
        made = {"type": "function_call", "call_id": "c1", "arguments": "{}"}
        codex.tell("rawResponseItem/completed", item=made)
    codex.ask(1, "item/tool/call", callId="c1", tool="task_complete", arguments={})


async def test_task_complete_is_interrupted_and_never_answered(tmp_path):
    """Codex asks its model again as soon as it has an answer, before an interrupt behind that."""
    host = RecordingHost(task_complete=completes)
    async with open_session(tmp_path, host) as (session, codex):
        turn = start(session)
        await complete_task(codex, tells_raw=True)
        await until(lambda: bool(host.calls))
        assert not any(m.get("method") == "turn/interrupt" for m in codex.received)
        codex.tell("rawResponse/completed", responseId="r1")  # now its tokens are counted
        await codex.sent("turn/interrupt")
        codex.complete("interrupted")
        events = await turn
        assert not any(m.get("id") == 1 and "method" not in m for m in codex.received)
        (item,) = (await codex.sent("thread/inject_items"))["params"]["items"]
    assert events[-1].stop_reason is StopReason.END_TURN
    text = item["content"][0]["text"]
    assert text.startswith("Your task_complete was accepted")
    assert text.endswith('{"ok":true}')


@pytest.mark.parametrize("tells_raw", [True, False])
async def test_a_response_that_does_not_end_is_not_waited_for(tmp_path, tells_raw):
    host = RecordingHost(task_complete=completes)
    async with open_session(tmp_path, host, clock=FakeClock()) as (session, codex):
        turn = start(session)
        await complete_task(codex, tells_raw=tells_raw)
        await codex.sent("turn/interrupt")
        codex.complete("interrupted")
        assert (await turn)[-1].stop_reason is StopReason.END_TURN


async def test_an_older_codex_is_told_of_the_end_by_the_next_prompt(tmp_path):
    host = RecordingHost(task_complete=completes)
    old: dict[str, Any] = {"thread/inject_items": RpcError("unknown method")}
    async with open_session(tmp_path, host, clock=FakeClock(), **old) as (session, codex):
        turn = start(session)
        await complete_task(codex, tells_raw=True)
        await codex.sent("turn/interrupt")
        codex.complete("interrupted")
        await turn
        codex.received.clear()
        turn = start(session)
        sent = await codex.sent("turn/start")
        codex.complete()
        await turn
    assert sent["params"]["input"][0]["text"].startswith("Your task_complete was accepted")


async def test_tokens_that_a_busy_codex_did_not_tell_are_read_from_the_thread(tmp_path):
    """It cuts an interrupted turn off, now and then before it has told them."""
    host = RecordingHost(task_complete=completes)
    used = {"input_tokens": 100, "output_tokens": 10, "total_tokens": 110}
    lines = (
        {"type": "token_usage_record", "payload": {"usage": {"input_tokens": 7}}},
        {"type": "response_item", "payload": {"type": "function_call", "call_id": "c1"}},
        {"type": "token_usage_record", "payload": {"usage": used}},
    )
    async with open_session(tmp_path, host) as (session, codex):
        server: Any = session._server
        file = server.home / "sessions" / f"rollout-1-{THREAD}.jsonl"
        file.parent.mkdir()
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        turn = start(session)
        await complete_task(codex, tells_raw=True)
        codex.tell("rawResponse/completed", responseId="r1")
        await codex.sent("turn/interrupt")
        codex.complete("interrupted")
        events = await turn
    assert [report.usage.total_tokens for report in only(UsageReported, events)] == [110]


async def test_a_turn_whose_interrupt_is_not_confirmed_is_ended_anyway(tmp_path):
    async with open_session(tmp_path, clock=FakeClock()) as (session, codex):
        turn = start(session)
        await codex.sent("turn/start")
        codex.tell("item/agentMessage/delta", itemId="m", delta="a")
        await session.interrupt()
        events = await turn
        assert not session.reusable
    assert events[-1].stop_reason is StopReason.ABORTED
    assert "did not confirm" in only(Notice, events)[-1].text


async def test_who_leaves_while_more_comes_than_was_read_ends_the_turn(tmp_path):
    async with open_session(tmp_path, clock=FakeClock()) as (session, codex), asyncio.timeout(30):
        async with streaming(session, "Hello.") as events:
            first = asyncio.ensure_future(anext(events))
            await codex.sent("turn/start")
            for _ in range(1500):
                codex.tell("item/agentMessage/delta", itemId="m", delta="a")
            assert isinstance(await first, TextDelta)
        codex.complete("interrupted")
        assert "turn/interrupt" in [message.get("method") for message in codex.received]


async def test_a_dead_process_ends_the_turn_with_the_end_of_its_stderr(tmp_path):
    async with open_session(tmp_path) as (session, codex):
        turn = start(session)
        await codex.sent("turn/start")
        codex.stderr_tail = (
            "\x1b[31mthread 'main' panicked\x1b[0m\nReading additional input from stdin"
        )
        codex.kill()
        events = await turn
    assert (events[-1].error.kind, events[-1].error.retryable) == (ErrorKind.MODEL_ERROR, True)
    (notice,) = only(Notice, events)
    assert notice.level == "error"
    assert notice.text.endswith("thread 'main' panicked")


async def test_a_pending_call_is_cancelled_with_its_turn_and_not_answered(tmp_path):
    cancelled = asyncio.Event()

    async def waits(**_):
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    host = RecordingHost(waits=waits)
    async with open_session(tmp_path, host) as (session, codex):
        turn = start(session)
        await codex.sent("turn/start")
        codex.ask(1, "item/tool/call", callId="c1", tool="waits", arguments={})
        await until(lambda: bool(host.calls))
        codex.complete("interrupted")
        events = await turn
        await until(cancelled.is_set)
        assert not any(m.get("id") == 1 and "result" in m for m in codex.received)
    assert events[-1].stop_reason is StopReason.ABORTED


async def test_what_an_older_turn_still_says_is_ignored(tmp_path):
    async with open_session(tmp_path) as (session, codex):
        turn = start(session)
        await codex.sent("turn/start")
        codex.tell("item/agentMessage/delta", turnId="turn-0", itemId="m", delta="old")
        codex.complete("failed", turn="turn-0")
        codex.tell("item/agentMessage/delta", itemId="m", delta="new")
        codex.complete()
        events = await turn
    assert [delta.text for delta in only(TextDelta, events)] == ["new"]


async def test_lines_that_cannot_be_understood_are_skipped_and_counted(tmp_path):
    async with open_session(tmp_path) as (session, codex):
        turn = start(session)
        await codex.sent("turn/start")
        for line in (b"garbage", b"\xff\xfe", b"[1]", b"null", b"[" * 100_000):
            codex.say_raw(line)
        codex.say({"method": "item/completed", "params": None})
        for method in ("item/started", "item/completed", "thread/tokenUsage/updated", "error"):
            codex.say({"method": method, "params": {"threadId": THREAD, "item": 5, "error": 5}})
        codex.say({"method": "turn/completed", "params": {"threadId": THREAD, "turnId": TURN}})
        codex.say({"id": 4711, "result": {}})
        odds: tuple[Any, ...] = ([], {}, ["commandExecution"])
        for odd in odds:
            codex.tell("item/started", item={"type": odd, "id": odd})
            codex.tell("item/agentMessage/delta", itemId=odd, turnId=TURN, delta=odd)
            codex.tell("item/completed", item={"type": odd, "id": odd, "summary": 7, "content": 7})
        codex.complete()
        assert (await turn)[-1].stop_reason is StopReason.END_TURN
        turn = start(session)
        await until(lambda: [m.get("method") for m in codex.received].count("turn/start") == 2)
        codex.kill()
        assert "6 of its lines were not understood" in (await turn)[-1].error.message


async def test_a_flood_of_events_waits_for_its_reader_and_loses_nothing(tmp_path):
    async with open_session(tmp_path) as (session, codex):
        turn = start(session)
        await codex.sent("turn/start")
        for number in range(5000):
            codex.tell("item/agentMessage/delta", itemId="m", delta=f"{number} ")
        codex.complete()
        events = await turn
    assert [int(delta.text) for delta in only(TextDelta, events)] == list(range(5000))


async def test_a_command_that_outlives_its_turn_has_no_end_that_was_told(tmp_path):
    item = {"type": "commandExecution", "id": "i", "command": "sleep 9", "status": "inProgress"}
    async with open_session(tmp_path) as (session, codex):
        turn = start(session)
        await codex.sent("turn/start")
        codex.tell("item/started", item=item)
        codex.complete()
        events = await turn
    assert [begun.call_id for begun in only(ToolCallStarted, events)] == ["i"]
    assert only(ToolCallFinished, events) == []


async def test_a_refused_turn_is_an_error_of_the_turn(tmp_path):
    refused: dict[str, Any] = {"turn/start": RpcError("no such model")}
    async with open_session(tmp_path, None, **refused) as (session, _):
        events = await run_turn(session, "hi")
    assert events[-1].error.message == "codex: no such model"


async def test_a_thread_lost_in_a_crash_is_given_up_so_that_it_can_be_rebuilt(tmp_path):
    lost: dict[str, Any] = {"thread/resume": RpcError("no rollout found")}
    async with open_session(tmp_path, None, **lost) as (session, codex):
        turn = start(session)
        await codex.sent("turn/start")
        codex.complete()
        await turn
        codex.kill()
        server: Any = session._server
        await until(lambda: server.closed)
        events = await run_turn(session, None)
        assert (session.resume_token, session.reusable) == (None, False)
    assert events[-1].error.retryable
    assert "no rollout found" in events[-1].error.message


async def test_a_first_turn_that_never_reached_the_disk_begins_a_new_thread(tmp_path):
    lost: dict[str, Any] = {"thread/resume": RpcError("no rollout found")}
    async with (
        open_fake(tmp_path, **lost) as (provider, services),
        provider.open_session(session_request(tmp_path), RecordingHost()) as session,
    ):
        turn = start(session, "the task")
        await services.codex[0].sent("turn/start")
        services.codex[0].kill()
        assert (await turn)[-1].error.retryable
        turn = start(session, None)
        await until(lambda: len(services.codex) == 2)
        sent = await services.codex[1].sent("turn/start")
        services.codex[1].complete()
        assert (await turn)[-1].stop_reason is StopReason.END_TURN
    assert sent["params"]["input"] == [{"type": "text", "text": "the task"}]


async def test_the_end_is_told_also_to_a_reader_that_is_far_behind(tmp_path):
    host = RecordingHost(task_complete=completes)
    async with open_session(tmp_path, host, clock=FakeClock()) as (session, codex):
        stream = session.run_turn(turn_context("hi"))
        first = asyncio.ensure_future(stream.__anext__())
        await codex.sent("turn/start")
        codex.ask(2, "item/tool/call", callId="c2", tool="task_complete", arguments={})
        for _ in range(1000):
            codex.tell("item/agentMessage/delta", itemId="m", delta="x")
        await first
        await codex.sent("turn/interrupt")
        running: Any = session.turn
        await until(running.over.is_set)
        rest: list[Any] = [event async for event in stream]
    assert rest[-1].stop_reason is StopReason.END_TURN


async def test_two_turns_at_once_are_refused(tmp_path):
    async with open_session(tmp_path) as (session, codex):
        turn = start(session)
        await codex.sent("turn/start")
        with pytest.raises(OrchestrationError, match="running already"):
            await run_turn(session, "again")
        codex.complete()
        await turn


async def test_a_thread_that_is_refused_says_why(tmp_path):
    refused: dict[str, Any] = {"thread/start": RpcError("MCP server down")}
    async with open_fake(tmp_path, **refused) as (provider, _):
        with pytest.raises(ProviderNotAvailableError, match="MCP server down"):
            await provider.open_session(session_request(tmp_path), RecordingHost()).__aenter__()


async def test_what_is_said_of_a_thread_before_its_id_is_known_is_heard(tmp_path):
    """A server that fails at once would be waited for, for a minute."""
    status = "mcpServer/startupStatus/updated"

    def begins(_params):
        codex = services.codex[-1]
        codex.say({"method": status, "params": {"threadId": "other", "name": "x"}})
        codex.tell(status, name="gone", status="failed", error="no database")
        return {"thread": {"id": THREAD}}

    request = session_request(tmp_path, mcp_servers={"gone": McpServer(command="x")})
    answers: dict[str, Any] = {"thread/start": begins}
    async with (
        open_fake(tmp_path, clock=FakeClock(autojump=False), **answers) as (provider, services),
        provider.open_session(request, RecordingHost()) as session,
    ):
        turn = start(session)
        await services.codex[-1].sent("turn/start")
        services.codex[-1].complete()
        events = await turn
    notices = [event.text for event in events if isinstance(event, Notice)]
    assert notices == ["The MCP server gone is not there: no database"]


async def test_closing_a_session_ends_the_commands_it_left_behind(tmp_path):
    async with open_session(tmp_path) as (_, codex):
        pass
    assert (await codex.sent("thread/backgroundTerminals/clean"))["params"] == {"threadId": THREAD}


async def test_an_interrupted_turn_ends_behind_the_commands_that_it_left_running(tmp_path):
    async with open_session(tmp_path) as (session, codex):
        turn = start(session)
        await codex.sent("turn/start")
        interrupt = asyncio.ensure_future(session.interrupt())
        await codex.sent("turn/interrupt")
        codex.complete("interrupted")
        cleaned = await codex.sent("thread/backgroundTerminals/clean")
        assert cleaned["params"] == {"threadId": THREAD}
        await interrupt
        assert (await turn)[-1].stop_reason is StopReason.ABORTED


async def test_the_provider_kills_while_agents_are_attached_and_stops_otherwise(tmp_path):
    async with open_fake(tmp_path) as (provider, services):
        async with provider.open_session(session_request(tmp_path), RecordingHost()):
            await provider.aclose()
        assert services.codex[0].ended == "killed"
        async with provider.open_session(session_request(tmp_path), RecordingHost()):
            pass
        await provider.aclose()
        assert services.codex[1].ended == "stopped"
    assert [argv[-1] for argv in services.argvs if "app-server" not in argv] == ["--version"]


async def test_a_turn_that_never_started_is_interrupted_in_time(tmp_path):
    clock = FakeClock(autojump=False)
    unanswered: dict[str, Any] = {"turn/start": None}
    async with open_session(tmp_path, clock=clock, **unanswered) as (session, codex):
        turn = start(session)
        await codex.sent("turn/start")
        interrupt = asyncio.ensure_future(session.interrupt())
        await clock.advance(2)
        await interrupt
        assert (await turn)[-1].stop_reason is StopReason.ABORTED


@pytest.mark.parametrize("silent", ["turn/start", "turn/interrupt"])
async def test_a_server_that_answers_nobody_is_ended_and_the_next_turn_starts_another(
    tmp_path, silent
):
    async with (
        open_fake(tmp_path, clock=FakeClock(), **{silent: None}) as (provider, services),
        provider.open_session(session_request(tmp_path), RecordingHost()) as session,
    ):
        hung = services.codex[0]
        turn = start(session)
        await hung.sent("turn/start")
        if silent == "turn/interrupt":
            await session.interrupt()
        events = await turn
        await until(lambda: hung.ended == "killed")
        assert events[-1].stop_reason is not StopReason.END_TURN
        turn = start(session, None)
        await until(lambda: len(services.codex) == 2)
        await services.codex[1].sent("thread/resume")
        services.codex[1].kill()
        assert (await turn)[-1].error.retryable


async def test_a_server_that_is_slow_to_clean_up_is_left_alone(tmp_path):
    slow: dict[str, Any] = {"thread/backgroundTerminals/clean": None}
    async with open_fake(tmp_path, clock=FakeClock(), **slow) as (provider, services):
        async with provider.open_session(session_request(tmp_path), RecordingHost()):
            pass
        assert services.codex[0].ended is None


async def test_an_item_that_is_told_again_or_too_late_is_not_news(tmp_path):
    async with open_session(tmp_path) as (session, codex):
        turn = start(session)
        await codex.sent("turn/start")
        item = {"type": "commandExecution", "id": "c", "command": "ls", "status": "completed"}
        for method in ("item/completed", "item/started", "item/completed"):
            codex.tell(method, item=item)
        message = {"type": "agentMessage", "id": "m", "text": "once"}
        codex.tell("item/completed", item=message)
        codex.tell("item/agentMessage/delta", itemId="m", delta="once")
        codex.tell("item/completed", item=message)
        codex.complete()
        kinds = [type(event).__name__ for event in await turn]
    assert kinds == ["ToolCallStarted", "ToolCallFinished", "AssistantMessage", "TurnEnded"]


@pytest.mark.parametrize("moments", range(6))
async def test_a_prompt_is_not_lost_at_whatever_moment_the_server_dies(tmp_path, moments):
    lost: dict[str, Any] = {"thread/resume": RpcError("no rollout found")}
    async with (
        open_fake(tmp_path, **lost) as (provider, services),
        provider.open_session(session_request(tmp_path), RecordingHost()) as session,
    ):
        turn = start(session, "the task")
        for _ in range(moments):
            await asyncio.sleep(0)
        services.codex[0].kill()
        await until(lambda: turn.done() or len(services.codex) == 2)
        if turn.done():
            assert (await turn)[-1].error.retryable
            turn = start(session, None)
        await until(lambda: len(services.codex) == 2)
        sent = await services.codex[1].sent("turn/start")
        services.codex[1].complete()
        assert (await turn)[-1].stop_reason is StopReason.END_TURN
    assert sent["params"]["input"] == [{"type": "text", "text": "the task"}]
