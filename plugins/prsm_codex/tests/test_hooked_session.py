"""A session whose calls are asked for by the tool hook, against a scripted app-server."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from prsm_testing.doubles import RecordingHost, completes, only, run_turn, session_request

from plugins.prsm_codex.tests.puppet import HOOK, THREAD, TURN, open_fake, open_session
from prsm_core.domain.agents import PermissionMode
from prsm_core.domain.permissions import Allow, Deny
from prsm_core.domain.turns import Notice, StopReason, ToolCallFinished, ToolCallStarted
from prsm_core.errors import ProviderNotAvailableError

HOOKED = {"enforcement": "pre_tool"}
COMMAND = {"type": "commandExecution", "command": "/bin/bash -lc ls", "cwd": "/w"}


def start(session, text="hi"):
    return asyncio.ensure_future(run_turn(session, text))


def payload(call_id="c1", tool="Bash", turn=TURN, **arguments):
    return {
        "session_id": THREAD,
        "turn_id": turn,
        "cwd": "/w",
        "tool_name": tool,
        "tool_input": arguments or {"command": "ls"},
        "tool_use_id": call_id,
    }


async def test_a_call_runs_when_the_host_allows_it_and_is_told_once(tmp_path):
    host = RecordingHost()
    async with open_session(tmp_path, host, settings=HOOKED) as (session, codex):
        turn = start(session)
        await codex.sent("turn/start")
        assert await session.refusal_of(payload()) is None
        codex.tell("item/started", item={**COMMAND, "id": "c1"})
        codex.tell("item/completed", item={**COMMAND, "id": "c1", "status": "completed"})
        codex.complete()
        events = await turn
    (asked,) = host.requests
    assert (asked.tool, asked.command, asked.cwd) == ("Bash", "ls", "/w")
    assert [e.call_id for e in only(ToolCallStarted, events)] == ["c1"]
    assert only(ToolCallFinished, events)[0].status == "completed"
    assert codex.ended == "stopped"


async def test_a_refused_call_is_told_as_denied_though_codex_never_begins_it(tmp_path):
    host = RecordingHost(verdict=lambda _: Deny("not in here"))
    async with open_session(tmp_path, host, settings=HOOKED) as (session, codex):
        turn = start(session)
        await codex.sent("turn/start")
        assert await session.refusal_of(payload()) == "not in here"
        codex.complete()
        events = await turn
    (started,) = only(ToolCallStarted, events)
    (finished,) = only(ToolCallFinished, events)
    assert (started.tool, started.arguments) == ("Bash", {"command": "ls", "cwd": "/w"})
    assert (finished.call_id, finished.status) == (started.call_id, "denied")
    assert finished.error == "not in here"


async def test_orchestration_calls_and_questions_are_not_asked_for_twice(tmp_path):
    host = RecordingHost(verdict=lambda _: Deny("no"), ask_parent=completes)
    async with open_session(tmp_path, host, settings=HOOKED) as (session, codex):
        turn = start(session)
        await codex.sent("turn/start")
        assert await session.refusal_of(payload(tool="ask_parent")) is None
        assert await session.refusal_of(payload(tool="request_user_input")) is None
        assert await session.refusal_of(payload(tool="mcp__docs__ask_parent")) == "no"
        codex.complete()
        await turn
    assert [request.tool for request in host.requests] == ["mcp__docs__ask_parent"]


async def test_outside_its_turn_nothing_may_run(tmp_path):
    host = RecordingHost()
    async with open_session(tmp_path, host, settings=HOOKED) as (session, codex):
        assert await session.refusal_of(payload()) is not None
        turn = start(session)
        await codex.sent("turn/start")
        assert await session.refusal_of(payload(turn="another")) is not None
        codex.complete()
        await turn
        assert await session.refusal_of(payload()) is not None
    assert host.requests == []


async def test_after_task_complete_nothing_may_run_what_is_undecided_included(tmp_path):
    deciding = asyncio.Event()

    class Slow(RecordingHost):
        async def authorize(self, request):
            deciding.set()
            await asyncio.Event().wait()
            return Allow()

    host = Slow(task_complete=completes)
    async with open_session(tmp_path, host, settings=HOOKED) as (session, codex):
        turn = start(session)
        await codex.sent("turn/start")
        undecided = asyncio.ensure_future(session.refusal_of(payload()))
        await deciding.wait()
        codex.ask(1, "item/tool/call", callId="c2", tool="task_complete", arguments={})
        with pytest.raises(asyncio.CancelledError):
            await undecided
        assert "has completed" in str(await session.refusal_of(payload("c3")))
        codex.complete("interrupted")
        events = await turn
    assert events[-1].stop_reason is StopReason.END_TURN


@pytest.mark.parametrize("kind", ["commandExecution", "fileChange", "imageView", "mcpToolCall"])
async def test_a_codex_that_runs_what_nobody_was_asked_about_is_ended(tmp_path, kind):
    async with open_session(tmp_path, settings=HOOKED) as (session, codex):
        turn = start(session)
        await codex.sent("turn/start")
        assert await session.refusal_of(payload("c1")) is None
        codex.tell("item/started", item={**COMMAND, "id": "c1"})
        codex.tell("item/started", item={**COMMAND, "type": kind, "id": "c2"})
        events = await turn
        assert codex.ended == "killed"
    assert events[-1].stop_reason is StopReason.ERROR
    assert "nobody had been asked about" in events[-1].error.message
    assert not events[-1].error.retryable
    assert "nobody had been asked about" in only(Notice, events)[-1].text


@pytest.mark.parametrize("change", [{"cwd": "/etc"}, {"command": "/bin/bash -lc 'rm x'"}])
async def test_a_command_that_is_not_run_as_it_was_asked_for_is_ended(tmp_path, change):
    async with open_session(tmp_path, settings=HOOKED) as (session, codex):
        turn = start(session)
        await codex.sent("turn/start")
        assert await session.refusal_of(payload("c1")) is None
        codex.tell("item/started", item={**COMMAND, "id": "c1", **change})
        events = await turn
    assert codex.ended == "killed"
    assert "otherwise than it had asked" in events[-1].error.message


async def test_a_codex_whose_hook_fails_is_ended_at_once(tmp_path):
    async with open_session(tmp_path, settings=HOOKED) as (session, codex):
        turn = start(session)
        await codex.sent("turn/start")
        codex.tell("hook/completed", run={"eventName": "postToolUse", "status": "failed"})
        codex.tell("hook/completed", run={"eventName": "preToolUse", "status": "blocked"})
        codex.ask(1, "attestation/generate")
        await codex.answer(1)  # what came before it was heard
        ends = [codex.ended]
        codex.tell("hook/completed", run={"eventName": "preToolUse", "status": "failed"})
        events = await turn
    assert [*ends, codex.ended] == [None, "killed"]
    assert "whose hook had failed" in events[-1].error.message


async def test_what_codex_asks_beside_the_hook_is_accepted_only_for_what_was_allowed(tmp_path):
    host = RecordingHost()
    approval = "item/commandExecution/requestApproval"
    async with open_session(tmp_path, host, settings=HOOKED) as (session, codex):
        turn = start(session)
        await codex.sent("turn/start")
        assert await session.refusal_of(payload("c1", command="rm -f x")) is None
        codex.ask(1, approval, itemId="c1", command="/bin/bash -lc 'rm -f x'")
        codex.ask(2, approval, itemId="c2", command="/bin/bash -lc ls")
        codex.ask(3, approval, itemId="c1", command="ls", networkApprovalContext={})
        codex.ask(4, approval, itemId="c1", command="ls", kind="writeStdin")
        assert (await codex.answer(1))["result"] == {"decision": "accept"}
        for number in (2, 3, 4):
            assert (await codex.answer(number))["result"] == {"decision": "decline"}
        codex.complete()
        await turn
    assert len(host.requests) == 1


async def test_a_hook_that_is_new_is_trusted_before_anything_runs(tmp_path):
    trusted: list[Any] = []

    def listed(_):
        state = "trusted" if trusted else "untrusted"
        return {"data": [{"hooks": [{**HOOK, "trustStatus": state}]}]}

    def write(params):
        trusted.append(params)
        return {"status": "ok"}

    answers: dict[str, Any] = {"hooks/list": listed, "config/batchWrite": write}
    async with open_session(tmp_path, settings=HOOKED, **answers) as (_, codex):
        methods = [message.get("method") for message in codex.received]
    assert methods.index("config/batchWrite") < methods.index("thread/start")
    (params,) = trusted
    assert params["edits"][0]["value"] == HOOK["currentHash"]


@pytest.mark.parametrize(
    "listed",
    [
        {"data": []},
        {"data": [{"hooks": [{**HOOK, "trustStatus": "untrusted"}]}]},
        {"data": [{"hooks": [{**HOOK, "enabled": False}]}]},
    ],
)
async def test_a_codex_that_would_not_run_the_hook_is_not_used(tmp_path, listed):
    async with open_fake(tmp_path, settings=HOOKED, **{"hooks/list": listed}) as (provider, made):
        with pytest.raises(ProviderNotAvailableError, match="does not run the hook") as caught:
            await provider.open_session(session_request(tmp_path), RecordingHost()).__aenter__()
        assert made.codex[-1].ended == "killed"
    assert "enforcement: approval" in str(caught.value.hint)


async def test_the_token_of_the_hook_is_in_no_command_line(tmp_path):
    async with open_fake(tmp_path, settings=HOOKED) as (provider, made):
        async with provider.open_session(session_request(tmp_path), RecordingHost()):
            pass
        token = made.envs[-1]["PRSM_HOOK_TOKEN"]
        assert token not in " ".join(made.argvs[-1])


async def test_an_old_codex_asks_for_approval_and_says_so(tmp_path):
    async with open_fake(tmp_path, settings={"enforcement": "auto"}) as (provider, made):
        made.version = "0.161.0"
        assert provider.capabilities.enforcement == "pre_tool"
        async with provider.open_session(session_request(tmp_path), RecordingHost()) as session:
            codex = made.codex[-1]
            turn = start(session)
            await codex.sent("turn/start")
            codex.complete()
            events = await turn
        policy = (await codex.sent("thread/start"))["params"]["approvalPolicy"]
        gaps = (await provider.probe()).gaps
        assert provider.capabilities.enforcement == "approval"
    assert policy == "untrusted"
    assert "unified_exec_tty" not in made.argvs[1]
    assert "no tool hook" in gaps[0]
    assert [notice.level for notice in only(Notice, events)] == ["warning"]
    assert "no tool hook" in only(Notice, events)[0].text


async def test_who_wants_the_hook_does_not_get_an_old_codex(tmp_path):
    async with open_fake(tmp_path, settings=HOOKED) as (provider, made):
        made.version = "0.161.0"
        with pytest.raises(ProviderNotAvailableError, match="no tool hook"):
            await provider.open_session(session_request(tmp_path), RecordingHost()).__aenter__()
        status = await provider.probe()
    assert not status.available
    assert "Update Codex" in str(status.hint)


@pytest.mark.parametrize("has_shell", [True, False])
async def test_what_the_sandbox_stops_is_refused_and_nobody_is_asked(tmp_path, has_shell):
    host = RecordingHost(run_bash=completes) if has_shell else RecordingHost()
    async with open_session(tmp_path, host, settings=HOOKED) as (session, codex):
        turn = start(session)
        await codex.sent("turn/start")
        told = [
            await session.refusal_of(payload(f"c{n}", command="touch /opt/x")) for n in range(2)
        ]
        codex.complete()
        events = await turn
    way = "run_bash" if has_shell else "enforcement: approval"
    assert all("write /opt/x" in str(text) and way in str(text) for text in told)
    assert host.requests == []
    assert [end.status for end in only(ToolCallFinished, events)] == ["denied", "denied"]
    noted = [one for one in only(Notice, events) if "touch /opt/x" in one.text]
    assert len(noted) == (0 if has_shell else 1), "a person is told once of a setting"


async def test_an_agent_that_may_not_edit_is_told_of_no_setting(tmp_path):
    mode = {"mode": PermissionMode.PLAN}
    async with open_session(tmp_path, settings=HOOKED, request=mode) as (session, codex):
        turn = start(session)
        await codex.sent("turn/start")
        told = await session.refusal_of(payload(command="touch here.txt"))
        codex.complete()
        events = await turn
    assert "may not change files" in str(told)
    assert [one for one in only(Notice, events) if "here.txt" in one.text] == []


ESCALATED = json.dumps({"cmd": "ls", "sandbox_permissions": "require_escalated"})


def raw_call(call_id="c1", arguments=ESCALATED, kind="function_call"):
    return {"type": kind, "name": "exec_command", "call_id": call_id, "arguments": arguments}


async def test_a_call_that_wants_to_leave_the_sandbox_is_answered_without_a_person(tmp_path):
    """A thread tells of it by a raw item; of one that is resumed only its file does."""
    host, thread = RecordingHost(), tmp_path / "rollout.jsonl"
    thread.write_text(json.dumps({"type": "response_item", "payload": raw_call()}) + "\n{torn")
    asked = {**payload(), "transcript_path": str(thread)}
    async with open_session(tmp_path, host, settings=HOOKED) as (session, codex):
        turn = start(session)
        await codex.sent("turn/start")
        assert "leave its sandbox" in str(await session.refusal_of(asked))
        codex.tell("rawResponseItem/completed", item=raw_call("c2"))
        codex.tell("rawResponseItem/completed", item=raw_call("c3", '{"cmd": "ls"}'))
        codex.ask(1, "attestation/generate")
        await codex.answer(1)  # what came before it was heard
        assert "leave its sandbox" in str(await session.refusal_of(payload("c2")))
        assert await session.refusal_of(payload("c3")) is None
        codex.complete()
        await turn
    assert [request.call_id for request in host.requests] == ["c3"]


OUTPUT = "Chunk ID: a\nWall time: 0.0 seconds\nProcess {}\nOriginal token count: 1\nOutput:\nno\n"


@pytest.mark.requirement("N9")
@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (OUTPUT.format("exited with code 128"), ("failed", "no\n", "exit code 128", 128)),
        (OUTPUT.format("exited with code 0"), ("completed", "no\n", None, 0)),
        ("rejected: never", ("failed", None, "rejected: never", None)),
        ([{"type": "input_text", "text": "rejected"}], ("failed", None, "rejected", None)),
        (OUTPUT.format("running with session ID 7"), None),
    ],
)
async def test_a_call_without_an_item_ends_as_its_model_was_told(tmp_path, output, expected):
    async with open_session(tmp_path, settings=HOOKED) as (session, codex):
        turn = start(session)
        await codex.sent("turn/start")
        assert await session.refusal_of(payload("c1")) is None
        assert await session.refusal_of(payload("c2")) is None
        codex.tell("item/started", item={**COMMAND, "id": "c2"})
        codex.tell("item/completed", item={**COMMAND, "id": "c2", "status": "completed"})
        for call_id in ("c1", "c2", "c3"):
            item = {**raw_call(call_id, kind="function_call_output"), "output": output}
            codex.tell("rawResponseItem/completed", item=item)
        codex.complete()
        events = await turn
    first = [one for one in only(ToolCallStarted, events) if one.call_id == "c1"]
    ends = [one for one in only(ToolCallFinished, events) if one.call_id == "c1"]
    assert len(only(ToolCallStarted, events)) == len(first) + 1, "c2 has its item, c3 no permission"
    found = [(end.status, end.result, end.error, end.exit_code) for end in ends]
    assert found == ([] if expected is None else [expected])
    assert [one.arguments["command"] for one in first] == ["ls"] * len(found)
