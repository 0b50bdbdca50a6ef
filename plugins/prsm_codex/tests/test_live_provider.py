"""The provider with the real Codex, against a loopback model server."""

from __future__ import annotations

import asyncio
import os
import shutil
import uuid
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from prsm_codex.provider import CodexProvider, build

from plugins.prsm_codex.tests.doubles import (
    Host,
    completes,
    context,
    only,
    open_services,
    request,
    run_turn,
    until,
)
from prsm_core.domain.permissions import Allow, Answer, Deny
from prsm_core.domain.tools import ToolOutcome
from prsm_core.domain.turns import (
    AssistantMessage,
    ErrorKind,
    Notice,
    StepEnded,
    StopReason,
    TextDelta,
    ThinkingDelta,
    ToolCallFinished,
    ToolCallStarted,
    UsageReported,
)
from prsm_core.domain.usage import TokenUsage
from prsm_core.errors import ProviderNotAvailableError
from prsm_core.testing.model_server import ModelServer

pytestmark = pytest.mark.live

KEY = "secret-loopback-key"
PATCH = """\
*** Begin Patch
*** Add File: new.txt
+hello
*** End Patch
"""


@dataclass
class Live:
    """A provider with the real Codex, the model server it talks to, and its services."""

    provider: CodexProvider
    server: ModelServer
    services: Any
    cwd: Path

    def session(self, host=None, **changes):
        return self.provider.open_session(request(self.cwd, **changes), host or Host())

    @property
    def last(self):
        return self.server.requests[-1]

    def outputs(self, call):
        """What the last request holds as outputs of a scripted call."""
        found = self.last.conversation.outputs
        return [text for call_id, _, text in found if call_id.startswith(f"call_{call}__")]

    def prompts(self):
        """The prompts in the last request, without what Codex adds itself."""
        return [t for t in self.last.conversation.user if not t.startswith("<environment_context>")]

    def tools(self):
        """The names of the tools that the last request offers."""
        return {tool.get("name") for tool in self.last.body["tools"]}


@pytest.fixture(scope="session")
def binary():
    path = os.environ.get("PRSM_LIVE_CODEX", "")
    if not Path(path).is_file():
        pytest.skip("no codex: PRSM_LIVE_CODEX does not name its program")
    return path


@pytest.fixture
def state_dir():
    """A folder outside the temp directory, as the engine gives one."""
    path = Path.home() / ".cache" / "prsm-tests" / uuid.uuid4().hex
    path.mkdir(parents=True)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def codex(binary, state_dir, monkeypatch, tmp_path):
    """Opens a model server that plays steps, and a provider that uses it."""
    monkeypatch.setenv("LOOPBACK_KEY", KEY)

    @asynccontextmanager
    async def open_live(*steps, **lanes):
        scenario = {"lanes": {**lanes, "w1": {"marker": "", "steps": list(steps)}}}
        async with ModelServer(scenario) as server, open_services(state_dir) as services:
            settings = {
                "command": [binary],
                "base_url": server.base_url,
                "api_key_env": "LOOPBACK_KEY",
            }
            provider = build(settings, services)
            try:
                yield Live(provider, server, services, tmp_path)
            finally:
                await provider.aclose()
        assert server.failures == []

    return open_live


def reason(events):
    return events[-1].stop_reason


def call(name, call_id=None, **arguments):
    return {"tool": name, "arguments": arguments, "id": call_id}


# --- text, usage, calls --------------------------------------------------------------------------


@pytest.mark.requirement("E14", "E70")
async def test_a_text_turn_streams_deltas_the_message_usage_and_the_end_of_the_step(codex):
    usage = {"input_tokens": 500, "cached_input_tokens": 50, "output_tokens": 20}
    first = {"think": "Let me see.", "say": "hello wide world", "usage": usage}
    async with codex(first, {"say": "again"}) as live, live.session() as session:
        events = await run_turn(session, "hi")
        second = await run_turn(session, "more")
        assert live.prompts() == ["hi", "more"]
    assert "".join(e.text for e in only(TextDelta, events)) == "hello wide world"
    assert len(only(TextDelta, events)) == 3
    assert "".join(e.text for e in only(ThinkingDelta, events)) == "Let me see."
    assert only(AssistantMessage, events) == [
        AssistantMessage("hello wide world", thinking="Let me see.")
    ]
    counts = TokenUsage(
        input_tokens=500,
        output_tokens=20,
        cached_input_tokens=50,
        cache_write_tokens=0,
        reasoning_tokens=0,
        total_tokens=520,
    )
    assert only(UsageReported, events) == [UsageReported(counts)]
    assert len(only(StepEnded, events)) == 1
    assert reason(events) is reason(second) is StopReason.END_TURN
    assert only(UsageReported, second)[0].usage.total_tokens == 110


async def test_the_key_reaches_the_server_and_no_command_of_the_model(codex):
    async with codex({"shell": "env"}, {"say": "done"}) as live, live.session() as session:
        events = await run_turn(session, "hi")
    assert "authorization" in live.last.headers
    (finished,) = only(ToolCallFinished, events)
    assert finished.status == "completed"
    assert "PATH=" in finished.result
    assert KEY not in finished.result


async def test_two_calls_of_one_response_run_at_the_same_time(codex):
    both = asyncio.Barrier(2)

    async def meet(text):
        await both.wait()
        return ToolOutcome(text=f"met {text}")

    calls = [call("meet", name, text=name) for name in ("first", "second")]
    async with (
        codex({"call": calls}, {"say": "done"}) as live,
        live.session(Host(meet=meet)) as session,
    ):
        events = await run_turn(session, "hi")
    assert live.outputs("first") == ["met first"]
    assert live.outputs("second") == ["met second"]
    assert only(ToolCallStarted, events) == []
    assert len(only(StepEnded, events)) == 2


async def test_a_step_ends_only_when_the_host_knows_all_of_its_calls(codex):
    async def note(**_):
        return ToolOutcome(text="ok")

    host = Host(note=note)
    calls = [call("note", text=str(n)) for n in range(5)]
    async with (
        codex({"call": calls}, {"say": "done"}) as live,
        live.session(host) as session,
        aclosing(session.run_turn(context("hi"))) as turn,
    ):
        known = [len(host.calls) async for event in turn if isinstance(event, StepEnded)]
    assert known == [5, 5]


async def test_a_failed_call_is_told_to_the_model(codex):
    async def fails(**_):
        return ToolOutcome(text="no such child", is_error=True)

    async with (
        codex({"call": call("fails", "x")}, {"say": "done"}) as live,
        live.session(Host(fails=fails)) as session,
    ):
        await run_turn(session, "hi")
    assert live.outputs("x") == ["no such child"]


# --- task_complete -------------------------------------------------------------------------------


@pytest.mark.requirement("E14")
async def test_task_complete_ends_the_turn_and_its_output_stays_in_the_thread(codex):
    done = {"call": call("task_complete", "done", text="all")}
    async with (
        codex(done, {"say": "more"}, {"say": "more"}) as live,
        live.session(Host(task_complete=completes)) as session,
    ):
        events = await run_turn(session, "hi")
        await run_turn(session, "one thing more")
    assert reason(events) is StopReason.END_TURN
    assert only(UsageReported, events)[0].usage.total_tokens == 110
    assert live.outputs("done") == ['{"ok":true}']
    assert live.prompts()[-1].startswith("Your task_complete was accepted")


async def test_task_complete_costs_no_further_request(codex):
    """On a busy machine the interrupt can come too late for some; without it all would ask."""
    turns, done = 8, {"call": call("task_complete")}
    host = Host(task_complete=completes)
    async with codex(*[done] * 2 * turns) as live, live.session(host) as session:
        for _ in range(turns):
            await run_turn(session, "hi")
    assert len(live.server.requests) <= turns + turns // 2


async def test_task_complete_ends_its_waiting_sibling(codex):
    ended = asyncio.Event()

    async def waits(**_):
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    calls = [call("waits", "wait"), call("task_complete", "done")]
    async with (
        codex({"call": calls}, {"say": "more"}, {"say": "more"}) as live,
        live.session(Host(task_complete=completes, waits=waits)) as session,
    ):
        events = await run_turn(session, "hi")
        await run_turn(session, "more")
    assert reason(events) is StopReason.END_TURN
    assert ended.is_set()
    assert live.outputs("done") == ['{"ok":true}']
    assert "has completed" in live.outputs("wait")[0]


async def test_task_complete_does_not_wait_for_a_running_command(codex):
    started = asyncio.Event()

    async def completes_later(**_):
        await started.wait()
        return ToolOutcome(text='{"ok":true}', ends_turn=True)

    def accept(_):
        started.set()
        return Allow()

    slow = call("exec_command", cmd="sleep 20", yield_time_ms=20000)
    calls = [slow, call("task_complete", "done")]
    async with (
        codex({"call": calls}, {"say": "more"}, {"say": "more"}) as live,
        live.session(Host(verdict=accept, task_complete=completes_later)) as session,
    ):
        async with asyncio.timeout(10):
            events = await run_turn(session, "hi")
        await run_turn(session, "more")
    assert reason(events) is StopReason.END_TURN
    assert only(ToolCallFinished, events)[0].status == "failed"
    assert live.outputs("done") == ['{"ok":true}']


# --- permissions and questions -------------------------------------------------------------------


async def test_an_allowed_command_runs_and_a_denied_one_does_not(codex, tmp_path):
    def verdict(asked):
        return Deny("no secrets here") if "secret" in asked.command else Allow()

    host = Host(verdict=verdict)
    async with (
        codex(
            {"shell": "echo hi > f.txt && cat f.txt"},
            {"shell": "cat secret.txt", "expect": "hi"},
            {"say": "done", "expect": ["rejected by user", "no secrets here"]},
        ) as live,
        live.session(host) as session,
    ):
        events = await run_turn(session, "hi")
    commands = ["echo hi > f.txt && cat f.txt", "cat secret.txt"]
    assert [asked.command for asked in host.requests] == commands
    assert {asked.tool for asked in host.requests} == {"Bash"}
    assert {asked.cwd for asked in host.requests} == {str(tmp_path)}
    started, (allowed, denied) = only(ToolCallStarted, events), only(ToolCallFinished, events)
    assert [s.arguments["command"] for s in started] == commands
    assert allowed.status == "completed"
    assert allowed.result.endswith("hi\n")
    assert denied == ToolCallFinished(started[1].call_id, "denied", error="no secrets here")
    assert (tmp_path / "f.txt").read_text() == "hi\n"


@pytest.mark.parametrize("allowed", [True, False])
async def test_a_patch_is_an_edit_of_its_paths(codex, tmp_path, allowed):
    host = Host(verdict=lambda _: Allow() if allowed else Deny("read only"))
    async with codex({"patch": PATCH}, {"say": "done"}) as live, live.session(host) as session:
        events = await run_turn(session, "hi")
    (asked,) = host.requests
    assert (asked.tool, asked.command) == ("Edit", None)
    assert asked.paths == (str(tmp_path / "new.txt"),)
    assert only(ToolCallStarted, events)[0].tool == "Edit"
    assert only(ToolCallFinished, events)[0].status == ("completed" if allowed else "denied")
    assert (tmp_path / "new.txt").exists() is allowed


async def test_a_terminal_is_denied_for_nobody_can_check_what_is_typed_into_it(codex):
    shell = {"call": call("exec_command", cmd="bash", tty=True)}
    host = Host()
    async with codex(shell, {"say": "done"}) as live, live.session(host) as session:
        events = await run_turn(session, "hi")
    assert host.requests == []
    assert "tty" in only(ToolCallFinished, events)[0].error


async def test_an_agent_without_tools_is_offered_no_shell(codex):
    async with (
        codex({"say": "done"}) as live,
        live.session(Host(task_complete=completes), native_tools=frozenset()) as session,
    ):
        await run_turn(session, "hi")
    assert live.tools() == {"request_user_input", "task_complete"}


@pytest.mark.requirement("E17")
async def test_a_question_of_the_vendor_reaches_the_person(codex):
    options = [{"label": label, "description": label} for label in "AB"]
    asked = {"id": "q1", "header": "Pick", "question": "A or B?", "options": options}
    host = Host(answer=Answer(choices=("B",)))
    async with (
        codex(
            {"call": call("request_user_input", "ask", questions=[asked])}, {"say": "ok"}
        ) as live,
        live.session(host) as session,
    ):
        await run_turn(session, "hi")
    assert [(q.text, q.options) for q in host.questions] == [("Pick: A or B?", ("A", "B"))]
    assert live.outputs("ask") == ['{"answers":{"q1":{"answers":["B"]}}}']


# --- errors and retries --------------------------------------------------------------------------


async def test_going_on_after_a_429_shows_the_prompt_once(codex):
    busy = {"error": {"status": 429, "code": "rate_limit_exceeded", "message": "slow", "times": 2}}
    async with codex(busy, {"say": "done"}) as live, live.session() as session:
        first = await run_turn(session, "hi")
        second = await run_turn(session, None)
        third = await run_turn(session, None)
    assert first[-1].error.kind is second[-1].error.kind is ErrorKind.RATE_LIMIT
    assert first[-1].error.retryable
    assert reason(third) is StopReason.END_TURN
    assert len(live.server.requests) == 3
    assert live.prompts() == ["hi"]


def http(status, code=None, message="m"):
    return {"error": {"status": status, "code": code, "message": message}}


def stream(code, message="m"):
    return {"stream_error": {"code": code, "message": message}}


@pytest.mark.requirement("N12")
@pytest.mark.parametrize(
    ("step", "kind", "retryable", "after"),
    [
        (http(500), ErrorKind.MODEL_ERROR, True, None),
        (http(503), ErrorKind.MODEL_ERROR, True, None),
        (http(401), ErrorKind.AUTH_FAILURE, False, None),
        (http(403), ErrorKind.AUTH_FAILURE, False, None),
        (http(404, "model_not_found"), ErrorKind.MODEL_ERROR, False, None),
        (http(400), ErrorKind.MODEL_ERROR, False, None),
        (http(400, "context_length_exceeded"), ErrorKind.CONTEXT_OVERFLOW, False, None),
        (stream("context_length_exceeded"), ErrorKind.CONTEXT_OVERFLOW, False, None),
        (stream("insufficient_quota"), ErrorKind.RATE_LIMIT, False, None),
        (stream("server_is_overloaded"), ErrorKind.MODEL_ERROR, True, None),
        (
            stream("rate_limit_exceeded", "Please try again in 1.2s."),
            ErrorKind.RATE_LIMIT,
            True,
            1.2,
        ),
        ({"say": "a b c d", "cut": True}, ErrorKind.MODEL_ERROR, True, None),
        ({"incomplete": True}, ErrorKind.MODEL_ERROR, False, None),
    ],
)
async def test_an_error_of_the_model_has_its_kind(codex, step, kind, retryable, after):
    async with codex(step) as live, live.session() as session:
        events = await run_turn(session, "hi")
    error = events[-1].error
    assert (error.kind, error.retryable, error.retry_after_s) == (kind, retryable, after)
    assert len(live.server.requests) == 1
    expected = StopReason.MAX_TOKENS if "incomplete" in step else StopReason.ERROR
    assert reason(events) is expected


# --- steering, interrupting, dying ---------------------------------------------------------------


async def test_text_can_be_steered_into_a_running_turn(codex):
    waiting, go_on = asyncio.Event(), asyncio.Event()

    async def waits(**_):
        waiting.set()
        await go_on.wait()
        return ToolOutcome(text="ok")

    async with (
        codex({"call": call("waits")}, {"say": "done"}) as live,
        live.session(Host(waits=waits)) as session,
    ):
        assert not await session.steer("too early")
        turn = asyncio.ensure_future(run_turn(session, "hi"))
        await waiting.wait()
        assert await session.steer("look left")
        go_on.set()
        events = await turn
        assert not await session.steer("too late")
    assert reason(events) is StopReason.END_TURN
    assert live.prompts() == ["hi", "look left"]


async def test_an_interrupt_ends_a_silent_turn_and_the_thread_stays_usable(codex):
    silent = {"say": "a b c", "hang": True}
    async with codex(silent, {"say": "done"}) as live, live.session() as session:
        turn = asyncio.ensure_future(run_turn(session, "hi"))
        await live.server.wait_for_requests(1)
        async with asyncio.timeout(2):
            await session.interrupt()
            events = await turn
        again = await run_turn(session, "go on")
        assert session.reusable
    assert reason(events) is StopReason.ABORTED
    assert reason(again) is StopReason.END_TURN


async def test_closing_the_stream_interrupts_the_turn(codex):
    silent = {"say": "a b c d e f", "hang": True}
    async with codex(silent, {"say": "done"}) as live, live.session() as session:
        async with aclosing(session.run_turn(context("hi"))) as turn:
            async for event in turn:
                if isinstance(event, TextDelta):
                    break
        again = await run_turn(session, "go on")
    assert reason(again) is StopReason.END_TURN


async def test_a_thread_survives_the_death_of_the_process_in_a_turn(codex):
    silent = {"say": "a b c", "hang": True}
    async with (
        codex({"say": "first answer"}, silent, {"say": "done"}) as live,
        live.session() as session,
    ):
        await run_turn(session, "one")
        turn = asyncio.ensure_future(run_turn(session, "two"))
        await live.server.wait_for_requests(2)
        live.services.processes[-1].kill()
        events = await turn
        after = await run_turn(session, None)
    error = events[-1].error
    assert (error.kind, error.retryable) == (ErrorKind.MODEL_ERROR, True)
    assert "ended" in only(Notice, events)[-1].text
    assert reason(after) is StopReason.END_TURN
    assert live.prompts() == ["one", "two"]
    assert "first answer" in live.last.conversation.text
    assert only(UsageReported, after)[0].usage.total_tokens == 110


async def test_a_prompt_that_died_with_the_process_is_sent_again(codex):
    async with codex({"say": "done"}) as live, live.session() as session:
        live.services.processes[-1].kill()
        await live.services.processes[-1].wait()
        events = await run_turn(session, "hi")
        if reason(events) is StopReason.ERROR:
            events = await run_turn(session, None)
    assert reason(events) is StopReason.END_TURN
    assert live.prompts() == ["hi"]


# --- resuming and sharing ------------------------------------------------------------------------


async def test_a_thread_is_resumed_by_its_token_with_its_tools_and_its_settings(codex):
    async def note(**_):
        return ToolOutcome(text="noted")

    host = Host(note=note)
    async with codex({"say": "first"}, {"call": call("note", "n")}, {"say": "done"}) as live:
        async with live.session(host, native_tools=frozenset()) as session:
            await run_turn(session, "one")
            token = session.resume_token
        await live.provider.aclose()
        async with live.session(host, resume_token=token, native_tools=frozenset()) as session:
            events = await run_turn(session, "two")
            assert session.resume_token == token
    assert live.outputs("n") == ["noted"]
    assert live.prompts() == ["one", "two"]
    assert live.tools() == {"request_user_input", "note"}
    assert [e.usage.total_tokens for e in only(UsageReported, events)] == [110, 110]


async def test_a_resumed_agent_is_told_that_its_task_complete_was_accepted(codex):
    host = Host(task_complete=completes)
    done = {"call": call("task_complete", "done")}
    async with codex(done, {"say": "more"}, {"say": "more"}) as live:
        async with live.session(host) as session:
            await run_turn(session, "one")
        await live.provider.aclose()
        async with live.session(host, resume_token=session.resume_token) as session:
            await run_turn(session, "two")
    assert live.outputs("done") == ['{"ok":true}']
    assert live.prompts()[-1].startswith("Your task_complete was accepted")


async def test_an_interpreter_is_denied_in_a_resumed_thread(codex):
    host = Host()
    shell = {"call": call("exec_command", cmd="cd /tmp && python3", tty=True)}
    async with codex({"say": "first"}, shell, {"say": "done"}) as live:
        async with live.session(host) as session:
            await run_turn(session, "one")
        await live.provider.aclose()
        async with live.session(host, resume_token=session.resume_token) as session:
            events = await run_turn(session, "two")
    assert host.requests == []
    assert only(ToolCallFinished, events)[0].status == "denied"


async def test_an_unknown_thread_cannot_be_resumed(codex):
    async with codex() as live:
        with pytest.raises(ProviderNotAvailableError) as caught:
            await live.session(resume_token=str(uuid.uuid4())).__aenter__()
    assert caught.value.code == "resume_failed"


async def test_the_history_of_a_rebuilt_agent_stands_before_its_prompt(codex):
    async with codex({"say": "done"}) as live, live.session() as session:
        await run_turn(session, "go on", ("user", "count"), ("assistant", "1, 2"))
    (text,) = live.prompts()
    assert text.index("count") < text.index("1, 2") < text.index("go on")


async def test_agents_share_one_process_and_leave_no_command_behind(codex):
    sleeper = call("exec_command", cmd="sleep 300", yield_time_ms=300)
    lanes = {n: {"steps": [{"call": sleeper}, {"say": f"I am {n}"}]} for n in ("w2", "w3")}
    async with codex(**lanes) as live:

        async def run(name):
            async with live.session(name=name) as session:
                return await run_turn(session, f"[[lane:{name}]]")

        both = await asyncio.gather(run("w2"), run("w3"))
        assert [p.name for p in live.services.processes] == ["codex-version", "codex"]
        await until(lambda: not is_running("sleep 300", live.services.processes[-1].pid))
    assert [only(AssistantMessage, events)[0].text for events in both] == ["I am w2", "I am w3"]


def is_running(command, pid):
    """Whether a process or a descendant of it runs a command."""
    proc = Path(f"/proc/{pid}")
    try:
        line = (proc / "cmdline").read_text().replace("\0", " ")
        children = (proc / "task" / str(pid) / "children").read_text().split()
    except OSError:
        return False
    return command in line or any(is_running(command, child) for child in children)


async def test_the_sandbox_works_with_a_state_folder_below_the_temp_directory(
    binary, tmp_path, monkeypatch
):
    monkeypatch.setenv("LOOPBACK_KEY", KEY)
    state_dir, cwd = tmp_path / "state", tmp_path / "work"
    state_dir.mkdir()
    cwd.mkdir()
    scenario = {"lanes": {"w1": {"marker": "", "steps": [{"patch": PATCH}, {"say": "done"}]}}}
    async with ModelServer(scenario) as server, open_services(state_dir) as services:
        settings = {"command": binary, "base_url": server.base_url, "api_key_env": "LOOPBACK_KEY"}
        live = Live(build(settings, services), server, services, cwd)
        async with live.session() as session:
            await run_turn(session, "hi")
        await live.provider.aclose()
    assert (cwd / "new.txt").read_text() == "hello\n"


@pytest.mark.requirement("E92")
async def test_codex_lists_its_models_and_tells_its_version(binary, state_dir):
    async with open_services(state_dir) as services:
        provider = build({"command": [binary]}, services)
        models = await provider.list_models()
        status = await provider.probe()
        await provider.aclose()
    assert len(models) > 3
    assert all(model.reasoning_efforts for model in models)
    assert not any(model.hidden for model in models)
    assert str(status.version).startswith("0.")
    assert len(status.gaps) == 2
