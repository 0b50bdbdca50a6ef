"""Turns, with the small CLI of these tests and with the real one."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from prsm_testing.doubles import RecordingHost, answers, completes, only, run_turn

from plugins.prsm_claude.tests.stage import call
from prsm_core.domain.agents import PermissionMode
from prsm_core.domain.boxes import Box
from prsm_core.domain.permissions import Allow, Answer, Deny
from prsm_core.domain.turns import (
    AssistantMessage,
    ErrorKind,
    StepEnded,
    StopReason,
    ThinkingDelta,
    ToolCallFinished,
    UsageReported,
)
from prsm_core.domain.usage import Provenance, TokenUsage
from prsm_core.errors import ProcessError
from tests.engine.boxes import needs_runc, python_places

ADD = "*** Begin Patch\n*** Add File: new.txt\n+hello\n*** End Patch\n"
MCP = Path(__file__).with_name("small_mcp.py")
OPTIONS = [{"label": label, "description": label} for label in "AB"]
QUESTION = {"header": "Pick", "question": "Which?", "options": OPTIONS, "multiSelect": True}


@pytest.mark.requirement("E14")
async def test_thinking_and_every_token_count_are_told(claude):
    usage = {"input_tokens": 500, "cached_input_tokens": 50, "output_tokens": 20}
    step = {"think": "Let me see.", "say": "hello wide world", "usage": usage}
    async with claude(step) as stage, stage.session() as session:
        events = await run_turn(session, "hi")
    assert "".join(e.text for e in only(ThinkingDelta, events)) == "Let me see."
    assert only(AssistantMessage, events) == [
        AssistantMessage("hello wide world", thinking="Let me see.")
    ]
    response, turn = only(UsageReported, events)
    assert response.usage == TokenUsage(
        input_tokens=500,
        output_tokens=20,
        cached_input_tokens=50,
        cache_write_tokens=0,
        total_tokens=520,
    )
    assert response.context_used == 520
    assert turn.usage == TokenUsage()
    assert turn.cost_usd is not None
    assert turn.cost_usd > 0
    assert turn.cost_provenance is Provenance.ESTIMATED
    assert (turn.context_window or 0) >= 200_000


@pytest.mark.requirement("E12", "E14", "E45", "E69")
async def test_task_complete_ends_the_turn_without_a_further_request(claude):
    """What stands behind it in the same message is not done."""
    calls = [call("task_complete", "done", text="x"), call("Bash", command="touch never")]
    host = RecordingHost(task_complete=completes)
    async with claude({"call": calls}, {"say": "more"}) as stage, stage.session(host) as session:
        events = await run_turn(session, "hi")
        assert len(stage.server.requests) == 1
        assert events[-1].stop_reason is StopReason.END_TURN
        assert not (stage.cwd / "never").exists()
        await run_turn(session, "more")
        assert stage.outputs("done") == ['{"ok":true}']
    assert host.requests == []


async def test_task_complete_ends_its_waiting_sibling(claude):
    waiting, ended = asyncio.Event(), asyncio.Event()

    async def waits(**_):
        waiting.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def completes_then(**_):
        await waiting.wait()
        return await completes()

    calls = [call("waits", "wait"), call("task_complete", "done")]
    host = RecordingHost(task_complete=completes_then, waits=waits)
    async with claude({"call": calls}, {"say": "more"}) as stage, stage.session(host) as session:
        events = await run_turn(session, "hi")
        await run_turn(session, "more")
        assert "has completed" in stage.outputs("wait")[0]
        assert stage.outputs("done") == ['{"ok":true}']
    assert events[-1].stop_reason is StopReason.END_TURN
    assert ended.is_set()


async def test_a_refused_task_complete_goes_on(claude):
    host = RecordingHost(task_complete=answers("a summary is needed", is_error=True))
    step = {"call": call("task_complete", "done")}
    async with claude(step, {"say": "I see"}) as stage, stage.session(host) as session:
        events = await run_turn(session, "hi")
        assert "a summary is needed" in stage.outputs("done")[0]
    assert [message.text for message in only(AssistantMessage, events)] == ["I see"]


@pytest.mark.requirement("E17", "D12")
@pytest.mark.parametrize("mode", [PermissionMode.DEFAULT, PermissionMode.BYPASS])
async def test_a_question_reaches_the_person_in_every_mode(claude, mode):
    step = {"call": call("AskUserQuestion", "ask", questions=[QUESTION])}
    host = RecordingHost(answer=Answer(choices=("A", "B"), text="or both"))
    async with claude(step, {"say": "done"}) as stage, stage.session(host, mode=mode) as session:
        await run_turn(session, "hi")
        assert "A, B, or both" in stage.outputs("ask")[0]
    (question,) = host.questions
    assert (question.text, question.multiple) == ("Pick: Which?", True)


@pytest.mark.requirement("D12")
@pytest.mark.parametrize("mode", [PermissionMode.DEFAULT, PermissionMode.BYPASS])
@pytest.mark.parametrize("verdict", [Allow(), Deny("not in here")])
async def test_what_no_hook_decides_is_decided_where_the_cli_asks_for_leave(claude, mode, verdict):
    """The second layer alone: it asks the engine like the first, and its word holds."""
    host = RecordingHost(verdict=lambda _: verdict)
    steps = [{"shell": "touch made"}, {"say": "done"}]
    async with claude(*steps) as stage, stage.session(host, mode=mode) as session:
        session.kill()  # the CLI that the turn starts is told of no such hook
        del session._callbacks.hooks["PreToolUse"]
        await run_turn(session, "hi")
        assert (stage.cwd / "made").exists() is isinstance(verdict, Allow)
        assert ("not in here" in stage.outputs("shell")[0]) is isinstance(verdict, Deny)
    (asked,) = host.requests
    assert (asked.tool, asked.command) == ("Bash", "touch made")


async def test_a_gate_that_fails_lets_nothing_through(claude):
    def breaks(_):
        raise RuntimeError("the engine is broken")

    host = RecordingHost(verdict=breaks)
    async with (
        claude({"shell": "touch never"}, {"say": "done"}) as stage,
        stage.session(host) as session,
    ):
        events = await run_turn(session, "hi")
        assert not (stage.cwd / "never").exists()
    assert only(ToolCallFinished, events)[0].status == "failed"


def http(status, code=None, message="m"):
    error = {"status": status, "message": message}
    return {"error": error | ({"code": code} if code else {})}


@pytest.mark.parametrize(
    ("step", "kind", "retryable"),
    [
        (http(429), ErrorKind.RATE_LIMIT, True),
        (http(500), ErrorKind.MODEL_ERROR, True),
        (http(529), ErrorKind.MODEL_ERROR, True),
        (http(401), ErrorKind.AUTH_FAILURE, False),
        (http(403), ErrorKind.AUTH_FAILURE, False),
        (
            http(400, "context_length_exceeded", "9 tokens > 8 maximum"),
            ErrorKind.CONTEXT_OVERFLOW,
            False,
        ),
        ({"say": "a b c d", "cut": True}, ErrorKind.MODEL_ERROR, True),
    ],
)
async def test_an_error_of_the_model_has_its_kind(claude, step, kind, retryable):
    async with claude(step) as stage, stage.session() as session:
        events = await run_turn(session, "hi")
        assert len(stage.server.requests) == 1
    error = events[-1].error
    assert (error.kind, error.retryable) == (kind, retryable)
    assert events[-1].stop_reason is StopReason.ERROR
    assert [m.text for m in only(AssistantMessage, events) if "API Error" in m.text] == []


async def test_a_text_that_comes_too_late_for_a_response_is_answered_in_the_same_turn(claude):
    slow = {"say": "a b c d e f g h", "delay": 0.2}
    async with (
        claude(slow, {"say": "I looked left"}) as stage,
        stage.session() as session,
        asyncio.TaskGroup() as group,
    ):
        turn = group.create_task(run_turn(session, "hi"))
        await stage.server.wait_for_requests(1)
        assert await session.steer("Look left.")
        events = await turn
        assert stage.prompts()[-1] == "Look left."
    said = [message.text for message in only(AssistantMessage, events)]
    assert said == ["a b c d e f g h", "I looked left"]
    assert len(only(StepEnded, events)) == 2


async def test_an_interrupt_leaves_no_text_that_would_begin_a_turn(claude):
    async with (
        claude({"say": "a b c", "hang": True}, {"say": "done"}) as stage,
        stage.session() as session,
        asyncio.TaskGroup() as group,
    ):
        turn = group.create_task(run_turn(session, "hi"))
        await stage.server.wait_for_requests(1)
        assert await session.steer("Look left.")
        await session.interrupt()
        assert (await turn)[-1].stop_reason is StopReason.ABORTED
        processes = len(stage.services.processes)
        await run_turn(session, "Go on.")
        assert len(stage.server.requests) == 2
        assert stage.prompts()[-1] == "Go on."
        assert len(stage.services.processes) == processes  # it was not ended for that


async def test_what_is_said_to_an_agent_that_completes_begins_no_turn(claude):
    waiting, said = asyncio.Event(), asyncio.Event()

    async def completes_late(**_):
        waiting.set()
        await said.wait()
        return await completes()

    host = RecordingHost(task_complete=completes_late)
    async with (
        claude({"call": call("task_complete", "done")}, {"say": "more"}) as stage,
        stage.session(host) as session,
        asyncio.TaskGroup() as group,
    ):
        turn = group.create_task(run_turn(session, "hi"))
        await waiting.wait()
        assert await session.steer("Look left.")
        said.set()
        assert (await turn)[-1].stop_reason is StopReason.END_TURN
        await run_turn(session, "more")
        assert len(stage.server.requests) == 2


async def test_a_message_is_answered_without_any_tool(claude):
    async with (
        claude({"say": "done"}) as stage,
        stage.session(native_tools=frozenset()) as session,
    ):
        events = await run_turn(session, "hi")
    assert [message.text for message in only(AssistantMessage, events)] == ["done"]


@needs_runc
async def test_a_turn_in_a_box_is_as_any_other_and_writes_its_folder_alone(claude, tmp_path):
    write = call("Bash", command=f"echo x > in; echo x > {tmp_path}/out")
    async with (
        claude({"call": write}, {"say": "done"}) as stage,
        stage.session(box=Box(network=True, mounts=python_places())) as session,
    ):
        events = await run_turn(session, "hi")
    assert only(AssistantMessage, events)[-1].text == "done"
    assert (stage.cwd / "in").exists()
    assert not (tmp_path / "out").exists()


async def test_a_box_that_cannot_be_had_keeps_a_session_from_opening(claude):
    async with claude({"say": "never"}) as stage:
        with pytest.raises(ProcessError, match="this box cannot be had"):
            async with stage.session(box=Box(mounts={"relative": "/x"})) as session:
                await run_turn(session, "hi")
