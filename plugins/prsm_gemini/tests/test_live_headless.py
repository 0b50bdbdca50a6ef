"""Turns of the real Gemini CLI by the headless backend, where it is special."""

from __future__ import annotations

import asyncio

import pytest
from prsm_gemini.provider import known_models
from prsm_testing.doubles import RecordingHost, answers, completes, only, run_turn
from prsm_testing.provider_scene import call, error, failure, reason

from plugins.prsm_gemini.tests.real_gemini import open_real
from prsm_core.domain.turns import AssistantMessage, ErrorKind, StopReason

pytestmark = pytest.mark.live


@pytest.fixture
def real(binary, tmp_path):
    return lambda *steps: open_real(binary, tmp_path, "headless", *steps)


async def interrupted_turn(scene, session, prompt):
    """Return the events of a second turn, interrupted while its model speaks."""
    async with asyncio.TaskGroup() as group:
        turn = group.create_task(run_turn(session, prompt))
        await scene.stage.model.wait_for_requests(2)
        await session.interrupt()
    return turn.result()


@pytest.mark.parametrize(
    ("step", "kind", "retryable", "after"),
    [
        (failure(500), ErrorKind.MODEL_ERROR, True, None),
        (failure(503), ErrorKind.MODEL_ERROR, True, None),
        (failure(403), ErrorKind.AUTH_FAILURE, False, None),
        (failure(404), ErrorKind.MODEL_ERROR, False, None),
        (failure(400), ErrorKind.MODEL_ERROR, False, None),
        (
            {"error": {"status": 429, "message": "Please retry in 1.5s."}},
            ErrorKind.RATE_LIMIT,
            True,
            1.5,
        ),
        ({"say": "a b c d", "cut": True}, ErrorKind.MODEL_ERROR, True, None),
    ],
)
async def test_an_error_of_the_model_has_its_kind(real, step, kind, retryable, after):
    async with real(step) as scene, scene.session() as session:
        events = await run_turn(session, "hi")
        assert len(scene.stage.model.requests) == 1, "the engine retries, not the vendor"
    failed = error(events)
    assert (failed.kind, failed.retryable) == (kind, retryable)
    assert failed.retry_after_s == (pytest.approx(after, abs=0.1) if after else None)


def minutes_pass(tmp_path):
    """Let all files be older ones: Gemini names a file by the minute it was begun in."""
    older = len([*tmp_path.rglob("session-1*.jsonl")])
    for file in [*tmp_path.rglob("session-20*")]:
        file.rename(file.with_name(file.name.replace("session-20", f"session-1{older}")))


@pytest.mark.requirement("E71")
@pytest.mark.parametrize("later", [("First.",), ("First.", "Second.")])
async def test_each_call_has_one_answer_after_many_resumes(real, tmp_path, later):
    """Also where a resume is in a later minute, which makes Gemini write other files."""
    host = RecordingHost(note=answers("noted"))
    calls = [{"call": [call("note", one, text="1") for one in two]} for two in ("ab", "cd")]
    one, two, three, four = [{"say": word} for word in ("one", "two", "three", "four")]
    steps = (calls[0], one, calls[1], two, three, four)
    prompts = ("First.", "Second.", "Third.", "Fourth.")
    async with real(*steps) as scene, scene.session(host) as session:
        for prompt in prompts:
            await run_turn(session, prompt)
            if prompt in later:
                minutes_pass(tmp_path)
        assert [scene.outputs(one) for one in "abcd"] == [["noted"]] * 4
        assert [scene.times(prompt) for prompt in prompts] == [1, 1, 1, 1]


@pytest.mark.requirement("E71")
async def test_an_interrupted_turn_can_be_gone_on_with(real):
    steps = ({"say": "one"}, {"say": "a b c", "hang": True}, {"say": "done"})
    async with real(*steps) as scene, scene.session() as session:
        await run_turn(session, "First.")
        turn = await interrupted_turn(scene, session, "Second.")
        assert session.reusable
        events = await run_turn(session, None)
        assert [scene.times(prompt) for prompt in ("First.", "Second.")] == [1, 1]
    assert reason(turn) is StopReason.ABORTED
    assert reason(events) is StopReason.END_TURN


@pytest.mark.requirement("E71")
async def test_turns_of_different_minutes_are_one_conversation(real, tmp_path):
    """Gemini names a file by the minute, and begins an empty one when it resumes in another."""
    steps = ({"say": "one"}, {"say": "a b c", "hang": True}, {"say": "done"})
    async with real(*steps) as scene, scene.session() as session:
        await run_turn(session, "First.")
        minutes_pass(tmp_path)
        await interrupted_turn(scene, session, "Second.")
        assert len(list(tmp_path.rglob("session-*.jsonl"))) == 2, "Gemini no longer does so"
        await run_turn(session, None)
        assert [scene.times(prompt) for prompt in ("First.", "Second.")] == [1, 1]


async def test_a_failure_in_the_middle_of_a_turn_loses_nothing(real):
    host = RecordingHost(note=answers("noted"))
    steps = ({"call": call("note", "n", text="x")}, failure(503), {"say": "done"})
    async with real(*steps) as scene, scene.session(host) as session:
        assert reason(await run_turn(session, "Only once.")) is StopReason.ERROR
        assert reason(await run_turn(session, None)) is StopReason.END_TURN
        assert scene.times("Only once.") == 1
        assert scene.outputs("n") == ["noted"]
    assert len(host.calls) == 1


async def test_a_completed_task_costs_no_further_request(real):
    host = RecordingHost(task_complete=completes)
    done = {"call": call("task_complete", "d", text="all")}
    async with real(done, done) as scene, scene.session(host) as session:
        await run_turn(session, "Finish.")
        await run_turn(session, "Finish that, too.")
        assert len(scene.stage.model.requests) == 2


async def test_a_prompt_is_text_and_neither_flag_nor_command_nor_file(real):
    steps = [{"say": "ok"}] * 3
    async with real(*steps) as scene, scene.session() as session:
        (scene.cwd / "notes.txt").write_text("xyzzy-4711 in here")
        await run_turn(session, "--version")
        await run_turn(session, "/quit")
        await run_turn(session, "Look at @notes.txt and @notes.")
        assert [scene.times(text) for text in ("--version", "/quit", "\\@notes.txt")] == [1, 1, 1]
        assert "xyzzy-4711 in here" not in scene.heard.text


async def test_a_prompt_may_be_longer_than_an_argument(real):
    text = "count these words " * 20_000
    async with real({"say": "ok"}) as scene, scene.session() as session:
        await run_turn(session, text)
        assert scene.times("count these words") == 20_000


async def test_the_role_is_part_of_the_system_prompt(real):
    async with real({"say": "ok"}) as scene:
        async with scene.session(system_prompt="You are w1; ask @team.") as session:
            events = await run_turn(session, "hi")
        assert "You are w1; ask \\@team." in "\n".join(scene.heard.system)
    assert [message.text for message in only(AssistantMessage, events)] == ["ok"]


@pytest.mark.requirement("E93")
def test_the_installed_program_tells_its_models(binary):
    names = [model.model_id for model in known_models([binary])]
    assert "gemini-2.5-pro" in names
    assert not any("embedding" in name for name in names)
