"""Turns of the real Codex, where it is special."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from prsm_codex.provider import build
from prsm_testing.doubles import RecordingHost, completes, only, run_turn, until

from plugins.prsm_codex.tests.real_codex import KEY, call, gated, open_live
from prsm_core.domain.permissions import Allow, Deny
from prsm_core.domain.tools import ToolOutcome
from prsm_core.domain.turns import (
    AssistantMessage,
    ErrorKind,
    StopReason,
    ThinkingDelta,
    ToolCallFinished,
    ToolCallStarted,
    ToolOutput,
    UsageReported,
)
from prsm_core.domain.usage import TokenUsage

pytestmark = pytest.mark.live

PATCH = """\
*** Begin Patch
*** Add File: new.txt
+hello
*** End Patch
"""


@pytest.mark.requirement("E14")
async def test_thinking_and_every_token_count_are_told(codex):
    usage = {"input_tokens": 500, "cached_input_tokens": 50, "output_tokens": 20}
    step = {"think": "Let me see.", "say": "hello wide world", "usage": usage}
    async with codex(step) as live, live.session() as session:
        events = await run_turn(session, "hi")
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
    # The response tells its tokens, and the thread then how large the model's window is.
    told, window = only(UsageReported, events)
    assert (told.usage, window.usage.total_tokens) == (counts, 0)
    assert window.context_window


@pytest.mark.requirement("N3")
async def test_each_turn_thinks_as_hard_as_its_context_says(codex):
    say = {"say": "done"}
    async with codex(say, say) as live, live.session(model="gpt-5.5") as session:
        for effort in ("low", "high"):
            await run_turn(session, "hi", thinking_config={"effort": effort})
        asked = [request.body["reasoning"]["effort"] for request in live.server.requests]
    assert asked == ["low", "high"]


async def test_the_key_reaches_the_server_and_no_command_of_the_model(codex):
    async with codex({"shell": "env"}, {"say": "done"}) as live, live.session() as session:
        events = await run_turn(session, "hi")
    assert "authorization" in live.last.headers
    (finished,) = only(ToolCallFinished, events)
    assert finished.status == "completed"
    assert "PATH=" in str(finished.result)
    assert KEY not in str(finished.result)


@pytest.fixture
def busy():
    """Keep the machine busy."""
    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4)]
    yield
    for burner in burners:
        burner.kill()
        burner.wait()


@pytest.mark.usefixtures("busy")
@pytest.mark.parametrize("delay", [0.0, 0.05])
async def test_nothing_is_paid_for_behind_task_complete(codex, delay):
    """Also while others keep the machine busy; and the tokens of each last response are told."""
    agents, turns = 6, 4
    used = {"input_tokens": 100, "output_tokens": 10}
    done = {"call": call("task_complete", "done"), "delay": delay, "usage": used}

    async def work(live, number):
        host = RecordingHost(task_complete=completes)
        async with live.session(host, agent_id=f"{number:032x}") as session:
            ends = [await run_turn(session, "hi") for _ in range(turns)]
        reports = [report for end in ends for report in only(UsageReported, end)]
        return [tokens for report in reports if (tokens := report.usage.total_tokens)]

    async with codex(*[done] * 2 * agents * turns) as live:
        told = await asyncio.gather(*(work(live, number) for number in range(agents)))
        last = live.last.conversation
    assert len(live.server.requests) == agents * turns
    assert told == [[110] * turns] * agents
    assert any(text.startswith("Your task_complete was accepted") for text in last.system)


async def test_a_thread_of_a_new_process_is_ended_as_well_and_holds_that_it_was(
    binary, state_dir, tmp_path, monkeypatch
):
    """It tells nothing of the ends of responses."""
    monkeypatch.setenv("LOOPBACK_KEY", KEY)
    done = {"call": call("task_complete", "done"), "usage": {"input_tokens": 9}}
    scenario = {"lanes": {"agent": {"marker": "", "steps": [done] * 3}}}
    token: str | None = None
    texts: tuple[str, ...] = ()
    for _ in range(2):
        host = RecordingHost(task_complete=completes)
        async with (
            open_live(binary, scenario, state_dir, tmp_path) as live,
            live.session(host, resume_token=token) as session,
        ):
            events = await run_turn(session, "hi")
            token, texts = session.resume_token, live.last.conversation.system
        assert len(live.server.requests) == 1
        tokens = [report.usage.total_tokens for report in only(UsageReported, events)]
        assert list(filter(None, tokens)) == [19]
    assert any(text.startswith("Your task_complete was accepted") for text in texts)


async def test_task_complete_ends_its_waiting_sibling(codex):
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
    async with (
        codex({"call": calls}, {"say": "more"}, {"say": "more"}) as live,
        live.session(RecordingHost(task_complete=completes_then, waits=waits)) as session,
    ):
        events = await run_turn(session, "hi")
        await run_turn(session, "more")
    assert events[-1].stop_reason is StopReason.END_TURN
    assert ended.is_set()
    assert any('{"ok":true}' in text for text in live.last.conversation.system)
    # The turn is interrupted while the answer is on its way.
    assert re.search("has completed|was cancelled", live.outputs("wait")[0])


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
        live.session(RecordingHost(verdict=accept, task_complete=completes_later)) as session,
    ):
        async with asyncio.timeout(10):
            events = await run_turn(session, "hi")
        await run_turn(session, "more")
    assert events[-1].stop_reason is StopReason.END_TURN
    assert len(only(ToolCallStarted, events)) == 1
    assert [ended.status for ended in only(ToolCallFinished, events)] == ["failed"]
    assert any('{"ok":true}' in text for text in live.last.conversation.system)


@pytest.mark.parametrize("allowed", [True, False])
async def test_a_patch_is_an_edit_of_its_paths(codex, tmp_path, allowed):
    host = RecordingHost(verdict=lambda _: Allow() if allowed else Deny("read only"))
    async with codex({"patch": PATCH}, {"say": "done"}) as live, live.session(host) as session:
        events = await run_turn(session, "hi")
    (asked,) = host.requests
    assert (asked.tool, asked.command) == ("Edit", None)
    assert asked.paths == (str(tmp_path / "new.txt"),)
    assert only(ToolCallStarted, events)[0].tool == "Edit"
    assert only(ToolCallFinished, events)[0].status == ("completed" if allowed else "denied")
    assert (tmp_path / "new.txt").exists() is allowed


async def test_an_agent_without_tools_is_offered_no_shell(codex):
    async with (
        codex({"say": "done"}) as live,
        live.session(RecordingHost(task_complete=completes), native_tools=frozenset()) as session,
    ):
        await run_turn(session, "hi")
    assert live.tools() == {"request_user_input", "update_plan", "task_complete"}


def http(status, code=None, message="m"):
    error = {"status": status, "message": message}
    return {"error": error | ({"code": code} if code else {})}


def stream(code, message="m"):
    return {"stream_error": {"code": code, "message": message}}


@pytest.mark.parametrize(
    ("step", "kind", "retryable", "after"),
    [
        (http(500), ErrorKind.MODEL_ERROR, True, None),
        (http(503), ErrorKind.MODEL_ERROR, True, None),
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
    assert events[-1].stop_reason is expected


@pytest.mark.requirement("U29")
async def test_a_used_up_plan_tells_when_it_can_be_used_again(codex):
    step = http(429, "usage_limit_reached", "The usage limit has been reached")
    step["error"] |= {"times": "always", "retry_after": 90_000}
    async with codex(step) as live, live.session() as session:
        events = await run_turn(session, "hi")
    error = events[-1].error
    assert (error.kind, error.retryable) == (ErrorKind.RATE_LIMIT, False)
    assert error.retry_after_s == pytest.approx(90_000, abs=90)


async def test_the_sandbox_works_with_a_state_folder_below_the_temp_directory(
    binary, tmp_path, monkeypatch
):
    monkeypatch.setenv("LOOPBACK_KEY", KEY)
    cwd = tmp_path / "work"
    cwd.mkdir()
    scenario = {"lanes": {"w1": {"marker": "", "steps": [{"patch": PATCH}, {"say": "done"}]}}}
    async with (
        open_live(binary, scenario, tmp_path / "state", cwd) as live,
        live.session() as session,
    ):
        await run_turn(session, "hi")
    assert (cwd / "new.txt").read_text() == "hello\n"


async def test_the_window_of_a_configured_model_is_told_to_codex(
    binary, state_dir, tmp_path, monkeypatch
):
    monkeypatch.setenv("LOOPBACK_KEY", KEY)
    scenario = {"lanes": {"w1": {"marker": "", "steps": [{"say": "done"}]}}}
    models = {"scripted-1": {"context_window": 100_000}}
    async with (
        open_live(binary, scenario, state_dir, tmp_path, models=models) as live,
        live.session() as session,
    ):
        events = await run_turn(session, "hi")
    report = only(UsageReported, events)[-1]
    assert report.context_window == 95_000  # Codex keeps a part of it back


async def test_what_the_repository_tells_in_agents_md_is_told_without_trust(codex):
    """By Codex itself; what Claude's CLAUDE.md says is told in the same way."""
    async with codex({"say": "done"}) as live:
        (live.cwd / "AGENTS.md").write_text("Remember the word xylophone.")
        async with live.session() as session:
            await run_turn(session, "hi")
        assert "xylophone" in live.last.conversation.text


async def test_codex_is_the_only_program_between_its_shim_and_what_it_runs(codex):
    async with codex({"say": "hello"}) as live, live.session() as session:
        await run_turn(session, "hi")
        program = program_below(live.services.processes[-1].pid)
    assert program == "codex"


def program_below(shim):
    """Return the name of the program that a shim runs."""
    (head,) = Path(f"/proc/{shim}/task/{shim}/children").read_text().split()
    return Path(f"/proc/{head}/exe").resolve().name


async def test_what_a_command_writes_is_told_while_it_runs(codex):
    command = "sleep 1; echo first; sleep 2; echo second"  # Codex leaves out what comes at once
    async with codex({"shell": command}, {"say": "done"}) as live, live.session() as session:
        events = await run_turn(session, "hi")
    [started], [finished] = only(ToolCallStarted, events), only(ToolCallFinished, events)
    pieces = only(ToolOutput, events)
    assert {piece.call_id for piece in pieces} == {started.call_id}
    assert len(pieces) > 1
    assert "".join(piece.text for piece in pieces) == "first\nsecond\n" == finished.result
    assert events.index(started) < events.index(pieces[0])
    assert events.index(pieces[-1]) < events.index(finished)


async def test_what_a_person_accepts_runs_once_and_outside_of_the_sandbox(codex, tmp_path):
    """Codex would try it inside first, and once more outside unless the first took too long."""
    await asyncio.to_thread(subprocess.run, ("git", "init", "-q", str(tmp_path)), check=True)
    commands = [f"echo once >> {n}.txt && git add {n}.txt" for n in range(6)]
    steps = [{"call": call("exec_command", f"add{n}", cmd=one)} for n, one in enumerate(commands)]

    def asking(settings, services):
        return build({**settings, "enforcement": "approval"}, services)

    host = RecordingHost()
    async with codex(*steps, {"say": "done"}, make=asking) as live, live.session(host) as session:
        events = await run_turn(session, "hi")
    assert [request.command for request in host.requests] == commands
    assert {file.read_text() for file in tmp_path.glob("*.txt")} == {"once\n"}
    assert [end.exit_code for end in only(ToolCallFinished, events)] == [0] * len(commands)


async def test_an_interrupt_ends_the_command_that_runs_and_removes_what_its_sandbox_leaves(
    codex, tmp_path
):
    command = f"touch began; sleep 1000.{os.getpid()}"
    async with codex({"shell": command}, make=gated()) as live, live.session() as session:
        turn = asyncio.ensure_future(run_turn(session, "hi"))
        await until(lambda: (live.cwd / "began").exists())
        assert (live.cwd / ".git").is_dir()  # else this proves nothing
        await session.interrupt()
        assert (await turn)[-1].stop_reason is StopReason.ABORTED
        assert [path.name for path in live.cwd.iterdir()] == ["began"]
