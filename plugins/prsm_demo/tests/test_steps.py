"""What only the script provider's steps do: edits, failures, questions, lanes by name."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest
from prsm_demo.provider import build
from prsm_demo.script.session import OUTPUT_LIMIT, ScriptCrashError
from prsm_testing.doubles import (
    RecordingHost,
    answers,
    completes,
    only,
    open_services,
    run_turn,
    session_request,
    until,
)
from prsm_testing.fake_clock import FakeClock

from prsm_core.domain.permissions import Answer, Deny
from prsm_core.domain.turns import (
    AssistantMessage,
    ErrorKind,
    StepEnded,
    StopReason,
    ToolCallFinished,
    ToolCallStarted,
    TurnEnded,
    UsageReported,
)
from prsm_core.domain.usage import TokenUsage
from prsm_core.errors import ConfigError, ProviderNotAvailableError


def deny(_):
    return Deny("not in here")


@pytest.fixture
def work(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def playing(tmp_path, work):
    """A context manager: a session of agent w1, whose lane holds the steps."""

    @asynccontextmanager
    async def play(*steps, host=None, lanes=None, clock=None):
        scenario = {"lanes": lanes or {"w1": {"steps": list(steps)}}}
        async with open_services(tmp_path / "state", clock=clock) as services:
            provider = build({"scenario": scenario}, services)
            async with provider.open_session(
                session_request(work), host or RecordingHost()
            ) as session:
                yield session
            await provider.aclose()

    return play


def said(events):
    return [message.text for message in only(AssistantMessage, events)]


def error_of(events):
    end = only(TurnEnded, events)[-1]
    assert end.stop_reason is StopReason.ERROR
    return end.error


async def test_an_edit_replaces_the_one_place_after_it_was_permitted(playing, work):
    (work / "a.txt").write_text("one two")
    host = RecordingHost()
    edit = {"path": "a.txt", "old": "two", "new": "three"}
    async with playing({"edit": edit}, {"say": "it is ${edit.status}"}, host=host) as session:
        events = await run_turn(session, "Edit.")
    assert (work / "a.txt").read_text() == "one three"
    (asked,) = host.requests
    assert (asked.tool, asked.paths, asked.command) == ("Edit", ("a.txt",), None)
    (started,), (finished,) = only(ToolCallStarted, events), only(ToolCallFinished, events)
    arguments = {"file_path": "a.txt", "old_string": "two", "new_string": "three"}
    assert (started.tool, started.arguments) == ("Edit", arguments)
    assert (finished.call_id, finished.status) == (started.call_id, "completed")
    assert said(events) == ["it is completed"]


async def test_a_file_is_written_whole_and_readable_by_others(playing, work):
    host = RecordingHost()
    edit = {"path": "new.txt", "content": "hello\n"}
    async with playing({"edit": edit}, {"say": "done"}, host=host) as session:
        await run_turn(session, "Write.")
    assert (work / "new.txt").read_text() == "hello\n"
    assert (work / "new.txt").stat().st_mode & 0o777 == 0o644
    assert host.requests[0].tool == "Write"


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        ({"path": "a.txt", "old": "o", "new": "x"}, "2 places read 'o', one is needed"),
        ({"path": "a.txt", "old": "none", "new": "x"}, "0 places read 'none', one is needed"),
        ({"path": "no.txt", "old": "a", "new": "b"}, "No such file"),
        ({"path": "no/such/new.txt", "content": "x"}, "No such file"),
    ],
)
async def test_an_edit_that_does_not_fit_fails_and_changes_nothing(playing, work, edit, why):
    (work / "a.txt").write_text("one two")
    async with playing({"edit": edit}, {"say": "${edit.status}"}) as session:
        events = await run_turn(session, "Edit.")
    (finished,) = only(ToolCallFinished, events)
    assert finished.status == "failed"
    assert why in (finished.error or "")
    assert said(events) == ["failed"]
    assert [path.name for path in work.iterdir()] == ["a.txt"]
    assert (work / "a.txt").read_text() == "one two"


@pytest.mark.parametrize("step", [{"shell": "touch x"}, {"edit": {"path": "x", "content": ""}}])
async def test_a_denial_is_an_answer_and_nothing_happens(playing, work, step):
    (kind,) = step
    told = {"say": f"${{{kind}.status}}: ${{{kind}.reason}}"}
    async with playing(step, told, host=RecordingHost(verdict=deny)) as session:
        events = await run_turn(session, "Go.")
    assert list(work.iterdir()) == []
    assert said(events) == ["denied: not in here"]
    assert only(ToolCallFinished, events)[0].status == "denied"


async def test_a_denial_can_end_the_turn(playing):
    step = {"shell": "touch x", "on_denied": "fail"}
    async with playing(step, {"say": "never"}, host=RecordingHost(verdict=deny)) as session:
        events = await run_turn(session, "Go.")
    assert "was denied: not in here" in error_of(events).message
    assert said(events) == []


async def test_the_output_of_a_command_can_be_copied(playing):
    command = {"cmd": "echo out; echo err >&2; exit 3", "id": "try"}
    text = "${try.exit_code} ${try.stdout} ${/(e.r)/} ${try.status}: ${try.reason}"
    async with playing({"shell": command}, {"say": text}) as session:
        events = await run_turn(session, "Go.")
    assert said(events) == ["3 out err failed: exit code 3"]
    (finished,) = only(ToolCallFinished, events)
    assert (finished.status, finished.result, finished.error) == (
        "failed",
        "out\nerr",
        "exit code 3",
    )


@pytest.mark.parametrize(
    "step",
    [{"shell": "false"}, {"edit": {"path": "x", "old": "a", "new": "b"}}, {"call": {"tool": "no"}}],
)
async def test_a_failed_call_can_end_the_turn(playing, step):
    host = RecordingHost(no=answers("no such child", is_error=True))
    async with playing({**step, "on_error": "fail"}, {"say": "never"}, host=host) as session:
        events = await run_turn(session, "Go.")
    assert error_of(events).message.startswith("a call of the script was failed: ")


async def test_a_command_finds_the_interpreter_and_gets_no_input(playing, monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    command = "python3 -c 'import sys; print(repr(sys.stdin.read()))'"
    async with playing({"shell": command}, {"say": "${shell.stdout}"}) as session:
        events = await run_turn(session, "Go.")
    assert said(events) == ["''"]


async def test_endless_output_is_cut(playing):
    command = "head -c 200000 /dev/zero | tr '\\0' 'x' | fold"
    async with playing({"shell": command}, {"say": "done"}) as session:
        events = await run_turn(session, "Go.")
    (finished,) = only(ToolCallFinished, events)
    assert finished.status == "completed"
    assert OUTPUT_LIMIT - 100 < len(finished.result or "") <= OUTPUT_LIMIT + 1


async def test_a_folder_that_is_gone_is_told(playing, work):
    async with playing({"shell": "ls"}, {"say": "${shell.reason}"}) as session:
        work.rmdir()
        events = await run_turn(session, "Go.")
    assert "there is no folder" in said(events)[0]


async def test_an_interrupt_ends_a_running_command(playing, work):
    step = {"shell": "touch begun; sleep 1000"}
    async with playing(step) as session, asyncio.TaskGroup() as group:
        turn = group.create_task(run_turn(session, "Go."))
        await until((work / "begun").exists)
        await session.interrupt()
        events = await turn
    assert only(TurnEnded, events) == [TurnEnded(StopReason.ABORTED)]


@pytest.mark.parametrize(
    ("fail", "kind", "retryable"),
    [
        ("it broke", ErrorKind.UNKNOWN, False),
        ({"message": "it broke", "kind": "rate_limit", "retryable": True}, "rate_limit", True),
    ],
)
async def test_a_failure_ends_the_turn_and_the_next_turn_goes_on(playing, fail, kind, retryable):
    async with playing({"fail": fail}, {"say": "better"}) as session:
        first = await run_turn(session, "Go.")
        second = await run_turn(session, None)
    error = error_of(first)
    assert (error.message, error.kind, error.retryable) == ("it broke", kind, retryable)
    assert said(second) == ["better"]


@pytest.mark.parametrize(
    ("error", "kind", "retryable"),
    [
        ({"status": 503}, ErrorKind.MODEL_ERROR, True),
        ({"status": 400}, ErrorKind.MODEL_ERROR, False),
        ({"status": 400, "code": "context_length_exceeded"}, ErrorKind.CONTEXT_OVERFLOW, False),
    ],
)
async def test_an_http_error_is_what_an_adapter_makes_of_it(playing, error, kind, retryable):
    async with playing({"error": error}) as session:
        told = error_of(await run_turn(session, "Go."))
    assert (told.kind, told.retryable) == (kind, retryable)


async def test_a_crash_is_raised_to_the_engine(playing):
    async with playing({"crash": "the model exploded"}, {"say": "again"}) as session:
        with pytest.raises(ScriptCrashError, match="the model exploded"):
            await run_turn(session, "Go.")
        assert said(await run_turn(session, "Go on.")) == ["again"]


async def test_what_breaks_behind_a_call_is_raised_as_it_is(playing):
    async def broken(**_):
        raise ConfigError("the ledger is gone")

    step = {"call": [{"tool": "broken"}, {"tool": "broken"}]}
    async with playing(step, host=RecordingHost(broken=broken)) as session:
        with pytest.raises(ConfigError, match="the ledger is gone"):
            await run_turn(session, "Go.")


async def test_a_question_reaches_the_person_and_its_answer_the_script(playing):
    host = RecordingHost(answer=Answer(choices=("red",), text="please"))
    ask = {"question": "Which?", "options": ["red", "blue"], "multiple": True}
    async with playing(
        {"ask_user": ask}, {"say": "${ask_user.choices.0} ${ask_user.text}"}, host=host
    ) as session:
        events = await run_turn(session, "Go.")
    (question,) = host.questions
    assert (question.text, question.options, question.multiple) == ("Which?", ("red", "blue"), True)
    assert said(events) == ["red please"]


async def test_delay_and_hang_pass_on_the_clock_of_the_engine(playing):
    clock = FakeClock()
    async with playing({"say": "a b", "delay": 3600, "hang": 60}, clock=clock) as session:
        await run_turn(session, "Go.")
    assert clock.now() == 3660


async def test_a_script_that_tells_no_usage_used_nothing(playing):
    async with playing({"say": "one"}, {"say": "two", "usage": {"output_tokens": 7}}) as session:
        first = only(UsageReported, await run_turn(session, "Go."))
        second = only(UsageReported, await run_turn(session, "Go."))
    nothing = {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}
    assert first[0].usage == TokenUsage(**nothing, cached_input_tokens=0, reasoning_tokens=0)
    assert (second[0].usage.output_tokens, second[0].usage.total_tokens) == (7, 107)


async def test_thinking_alone_is_a_message_without_text(playing):
    async with playing({"think": "hm"}) as session:
        events = await run_turn(session, "Go.")
    assert only(AssistantMessage, events) == [AssistantMessage("", "hm")]


async def test_every_response_ends_with_one_step_ended(playing):
    host = RecordingHost(note=answers("noted"), task_complete=completes)
    steps = ({"call": {"tool": "note"}}, {"shell": "true"}, {"call": {"tool": "task_complete"}})
    async with playing(*steps, host=host) as session:
        events = await run_turn(session, "Go.")
    assert len(only(StepEnded, events)) == len(steps)
    assert events[-1] == TurnEnded(StopReason.END_TURN)


LANES = {
    "w1": {"steps": [{"say": "by name"}]},
    "other": {"steps": [{"say": "by marker"}]},
    "rest": {"marker": "", "steps": [{"say": "the rest"}]},
}


@pytest.mark.parametrize(
    ("prompt", "lanes", "heard"),
    [
        ("Go.", LANES, "by name"),
        ("[[lane:other]] Go.", LANES, "by marker"),
        ("Go.", {name: LANES[name] for name in ("other", "rest")}, "the rest"),
    ],
)
async def test_the_lane_is_that_of_the_marker_then_of_the_name(playing, prompt, lanes, heard):
    async with playing(lanes=lanes) as session:
        assert said(await run_turn(session, prompt)) == [heard]


@pytest.mark.parametrize(
    ("lanes", "why"),
    [
        ({"other": LANES["other"]}, "no lane's marker is in the request"),
        ({"w1": {"steps": []}}, "the script of lane w1 has no step left"),
        ({"w1": {"steps": [{"say": "${nothing}"}]}}, "no call `nothing` has an output yet"),
        ({"w1": {"steps": [{"say": "x", "expect": "y z"}]}}, "does not hold ['y z']"),
    ],
)
async def test_what_does_not_go_by_the_script_is_an_error_of_the_turn(playing, lanes, why):
    async with playing(lanes=lanes) as session:
        assert why in error_of(await run_turn(session, "Go.")).message


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({}, "no scenario is set"),
        ({"scenario": "no-such.yaml"}, "no-such.yaml: there is no such file"),
        ({"scenario": "builtin:nothing"}, "there is no scenario builtin:nothing"),
        ({"scenario": {"lanes": {"a": {"steps": [{"cut": True}]}}}}, "unknown key 'cut'"),
        ({"scenario": {"lanes": {"a": {"steps": [{"fail": {"kind": "x"}}]}}}}, "unknown kind 'x'"),
    ],
)
async def test_a_scenario_that_cannot_be_played_is_told_with_a_cure(tmp_path, settings, reason):
    async with open_services(tmp_path / "state") as services:
        provider = build(settings, services)
        status = await provider.probe()
        with pytest.raises(ProviderNotAvailableError, match=r"^script: ") as caught:
            async with provider.open_session(session_request(tmp_path), RecordingHost()):
                pass
        await provider.aclose()
    assert not status.available
    assert reason in (status.reason or "")
    assert status.hint == caught.value.hint
    assert status.hint


async def test_a_setting_it_does_not_know_is_refused(tmp_path):
    async with open_services(tmp_path / "state") as services:
        with pytest.raises(ConfigError, match=r"providers\.script: unknown key 'scenari'"):
            build({"scenari": "x"}, services)


async def test_the_bundled_scenario_can_be_played(tmp_path):
    async with open_services(tmp_path / "state") as services:
        assert (await build({"scenario": "builtin:demo"}, services).probe()).available
