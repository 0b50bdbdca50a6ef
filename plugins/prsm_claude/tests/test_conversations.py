"""Conversations: resumed, parked, lost with their process; with the small CLI and the real one."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path

import pytest
from msgspec.structs import replace
from prsm_testing.doubles import RecordingHost, answers, only, run_turn, turn_context, until

from plugins.prsm_claude.tests.stage import call
from prsm_core.domain.tools import ToolOutcome
from prsm_core.domain.turns import AssistantMessage, ErrorKind, Notice, StopReason, UsageReported
from prsm_core.errors import ProviderNotAvailableError
from prsm_core.interfaces.provider import Carried, CarriedCall

PARENT = Path(__file__).with_name("small_engine.py")


def forever(waiting):
    """Return a handler that tells when it waits, and then does so."""

    async def wait(**_):
        waiting.set()
        await asyncio.Event().wait()

    return wait


async def test_a_conversation_survives_the_death_of_its_process_in_a_turn(claude):
    silent = {"say": "a b c", "hang": True}
    async with (
        claude({"say": "first answer"}, silent, {"say": "done"}) as stage,
        stage.session() as session,
        asyncio.TaskGroup() as group,
    ):
        token = session.resume_token
        await run_turn(session, "one")
        turn = group.create_task(run_turn(session, "two"))
        await stage.server.wait_for_requests(2)
        stage.services.processes[-1].kill()
        events = await turn
        after = await run_turn(session, None)
        assert session.resume_token == token
        assert [stage.prompts().count(text) for text in ("one", "two")] == [1, 1]
        assert "first answer" in stage.last.conversation.text
    error = events[-1].error
    assert (error.kind, error.retryable) == (ErrorKind.MODEL_ERROR, True)
    assert "ended" in only(Notice, events)[-1].text
    assert after[-1].stop_reason is StopReason.END_TURN


async def test_a_prompt_that_died_with_the_process_is_sent_again(claude):
    async with (
        claude({"say": "a b c", "hang": True}, {"say": "done"}) as stage,
        stage.session() as session,
        asyncio.TaskGroup() as group,
    ):
        turn = group.create_task(run_turn(session, "Only once."))
        await stage.server.wait_for_requests(1)
        stage.services.processes[-1].kill()
        assert (await turn)[-1].error.retryable
        await run_turn(session, None)
        assert sum(text.count("Only once.") for text in stage.prompts()) == 1


async def test_a_process_that_died_between_turns_is_started_again(claude):
    async with claude({"say": "one"}, {"say": "two"}) as stage, stage.session() as session:
        await run_turn(session, "hi")
        stage.services.processes[-1].kill()
        await stage.services.processes[-1].wait()
        events = await run_turn(session, "more")
        assert stage.prompts() == ["hi", "more"]
    assert events[-1].stop_reason is StopReason.END_TURN


async def test_an_unknown_conversation_cannot_be_resumed(claude):
    async with claude() as stage:
        with pytest.raises(ProviderNotAvailableError) as caught:
            await stage.session(resume_token=str(uuid.uuid4())).__aenter__()
        await until(lambda: not stage.services.live)
    assert caught.value.code == "resume_failed"


async def test_a_resumed_conversation_reports_only_its_own_cost(claude):
    usage = {"input_tokens": 1000, "output_tokens": 100}
    async with claude({"say": "one", "usage": usage}, {"say": "two", "usage": usage}) as stage:
        async with stage.session() as session:
            first = only(UsageReported, await run_turn(session, "hi"))
            token = session.resume_token
        async with stage.session(resume_token=token) as session:
            second = only(UsageReported, await run_turn(session, "more"))
    costs = [sum(report.cost_usd or 0 for report in reports) for reports in (first, second)]
    assert costs[0] == pytest.approx(costs[1])
    assert sum(report.usage.input_tokens or 0 for report in second) == 1000


async def test_a_call_that_was_let_go_of_is_answered_after_a_resume(claude):
    """Nothing is lost: the answer is that of the old call, by its old id."""
    waiting = asyncio.Event()
    step = {"call": call("wait_for_message", "wait", text="x")}
    async with claude(step, {"say": "done"}) as stage:
        host = RecordingHost(wait_for_message=forever(waiting))
        async with stage.session(host) as session, asyncio.TaskGroup() as group:
            turn = group.create_task(run_turn(session, "hi"))
            await waiting.wait()
            assert await session.park()
            assert (await turn)[-1].stop_reason is StopReason.TOOL_USE
            token, (asked,) = session.resume_token, host.calls
        assert stage.services.live == []
        again = RecordingHost(wait_for_message=answers("the answer"))
        async with stage.session(again, resume_token=token) as session:
            events = await run_turn(session, None)
            assert stage.outputs("wait") == ["the answer"]
        assert [made.call_id for made in again.calls] == [asked.call_id]
    assert [message.text for message in only(AssistantMessage, events)] == ["done"]
    assert len(stage.server.requests) == 2


async def test_an_answer_that_is_known_already_is_given_without_a_call(claude):
    waiting = asyncio.Event()
    step = {"call": call("wait_for_message", "wait", text="x")}
    async with claude(step, {"say": "well"}, {"say": "done"}) as stage:
        host = RecordingHost(wait_for_message=forever(waiting))
        async with stage.session(host) as session, asyncio.TaskGroup() as group:
            group.create_task(run_turn(session, "hi"))
            await waiting.wait()
            assert await session.park()
            token, (asked,) = session.resume_token, host.calls
        known = {asked.call_id: ToolOutcome(text="known")}
        again = RecordingHost(wait_for_message=answers("asked"))
        async with stage.session(again, resume_token=token, answers=known) as session:
            events = await run_turn(session, "And look left.")
            assert stage.outputs("wait") == ["known"]
            assert "And look left." in stage.prompts()[-1]
    assert again.calls == []
    assert only(AssistantMessage, events)[0].text == "well"


async def test_of_two_waiting_calls_none_is_let_go_of(claude):
    waiting = asyncio.Event()
    calls = [call("one", "first"), call("two", "second")]
    async with claude({"call": calls}) as stage:
        host = RecordingHost(one=forever(waiting), two=forever(waiting))
        async with stage.session(host) as session, asyncio.TaskGroup() as group:
            turn = group.create_task(run_turn(session, "hi"))
            await until(lambda: len(host.calls) == 2)
            assert not await session.park()
            await session.interrupt()
            assert (await turn)[-1].stop_reason is StopReason.ABORTED
            assert not await session.park()


async def test_what_cannot_be_let_go_of_is_told_after_the_session_was_closed(claude):
    """The CLI is killed, not interrupted: its model is told of nothing that a person wanted."""
    waiting = asyncio.Event()
    calls = [call("one", "first"), call("two", "second")]
    async with claude({"call": calls}, {"say": "done"}) as stage:
        host = RecordingHost(one=forever(waiting), two=forever(waiting))
        async with stage.session(host) as session, asyncio.TaskGroup() as group:
            turn = group.create_task(run_turn(session, "hi"))
            await until(lambda: len(host.calls) == 2)
            await until(lambda: transcripts(stage))
            assert not await session.park()
            await session.interrupt()
            assert (await turn)[-1].stop_reason is StopReason.ABORTED
        assert stage.services.live == []
        told = carried_of(host, {})
        resumed = {"resume_token": session.resume_token, "carried": told}
        async with stage.session(host, **resumed) as again:
            assert not again.taken.intersection(made.call_id for made in host.calls)
            events = await run_turn(again, "One and two were answered.")
        assert not any("interrupted by user" in text for text in stage.prompts())
    assert [message.text for message in only(AssistantMessage, events)] == ["done"]


async def test_a_conversation_that_was_lost_with_its_process_is_to_be_rebuilt(claude):
    async with claude({"say": "one"}) as stage, stage.session() as session:
        await run_turn(session, "hi")
        await until(lambda: transcripts(stage))
        stage.services.processes[-1].kill()
        await stage.services.processes[-1].wait()
        for path in transcripts(stage):
            path.unlink()
        error = (await run_turn(session, "more"))[-1].error
        assert error.retryable
        assert "lost the transcript" in error.message
        assert (session.reusable, session.resume_token) == (False, None)


def transcripts(stage):
    return list(stage.services.state_dir.glob("claude-home/projects/*/*.jsonl"))


async def test_a_permission_that_waits_is_not_let_go_of(claude):
    """Only what the engine can answer after a resume is."""
    waiting = asyncio.Event()

    class Asking(RecordingHost):
        async def authorize(self, request):
            waiting.set()
            await asyncio.Event().wait()
            raise AssertionError("unreachable")

    async with (
        claude({"shell": "true"}) as stage,
        stage.session(Asking()) as session,
        asyncio.TaskGroup() as group,
    ):
        turn = group.create_task(run_turn(session, "hi"))
        await waiting.wait()
        assert not await session.park()
        await session.interrupt()
        assert (await turn)[-1].stop_reason is StopReason.ABORTED


async def test_what_the_transcript_holds_is_taken_after_a_kill(claude):
    """Its prompt, and the calls that were answered before; the one that waited is not."""
    waiting = asyncio.Event()
    steps = [{"call": call("note", "n")}, {"call": call("ask_parent", "q")}, {"say": "done"}]
    host = RecordingHost(note=answers("noted"), ask_parent=forever(waiting))
    context = turn_context("hi")
    assert context.current_message is not None
    prompt = context.current_message.id
    async with claude(*steps) as stage:
        async with stage.session(host) as session, asyncio.TaskGroup() as group:
            turn = group.create_task(all_of(session.run_turn(context)))
            await waiting.wait()
            await until(lambda: any("noted" in path.read_text() for path in transcripts(stage)))
            stage.services.processes[-1].kill()
            await turn
        told = carried_of(host, {prompt: "hi", "lost": "and this"})
        note, question = (made.call_id for made in host.calls)
        async with stage.session(host, resume_token=session.resume_token, carried=told) as again:
            assert again.taken == {prompt, note}
            await run_turn(again, "The answer to your question is 7.")
            assert stage.outputs("n") == ["noted"]
            assert [text for text in stage.prompts() if text == "hi"] == ["hi"]
    assert question not in again.taken


async def test_a_call_that_was_let_go_of_is_taken_with_its_answer(claude):
    waiting = asyncio.Event()
    step = {"call": call("wait_for_message", "wait", text="x")}
    async with claude(step, {"say": "done"}) as stage:
        host = RecordingHost(wait_for_message=forever(waiting))
        async with stage.session(host) as session, asyncio.TaskGroup() as group:
            group.create_task(run_turn(session, "hi"))
            await waiting.wait()
            assert await session.park()
            token = session.resume_token
        told = carried_of(host, {})
        known = {made.call_id: made.outcome for made in told.calls}
        resumed = {"resume_token": token, "carried": told, "answers": known}
        async with stage.session(host, **resumed) as session:
            assert session.taken == set(known)
            await run_turn(session, None)
            assert stage.outputs("wait") == ["known"]
    assert len(host.calls) == 1


async def all_of(stream):
    return [event async for event in stream]


def carried_of(host, prompts):
    """Return what an engine carries that has answered all calls."""
    calls = tuple(
        CarriedCall(
            call_id=made.call_id,
            tool=made.name,
            arguments=made.arguments,
            orchestration=True,
            outcome=ToolOutcome(text="known"),
        )
        for made in host.calls
    )
    return Carried(turn_id="t", prompts=prompts, calls=calls)


def is_written(stage, words):
    return any(words in path.read_text() for path in transcripts(stage))


async def killed_in_a_call(stage, host, waiting, *prompts):
    """Play turns until a call of the last one waits and Claude has caught up; return the session.

    Each prompt is known by its own words.
    """
    async with stage.session(host) as session, asyncio.TaskGroup() as group:
        for text in prompts:
            context = turn_context(text)
            message = context.current_message
            assert message is not None
            context = replace(context, current_message=replace(message, id=text))
            turn = group.create_task(all_of(session.run_turn(context)))
            if text == prompts[-1]:
                await waiting.wait()
                await until(lambda: is_written(stage, host.calls[-1].call_id))
                stage.services.processes[-1].kill()
            await turn
    return session


@pytest.mark.requirement("F2")
async def test_a_prompt_that_was_heard_and_is_not_in_the_transcript_is_not_taken(claude):
    """Claude goes on before it writes: a kill may leave the transcript as it was before."""
    waiting = asyncio.Event()
    host = RecordingHost(ask_parent=forever(waiting))
    steps = [{"say": "one"}, {"call": call("ask_parent", "q")}, {"say": "done"}]
    async with claude(*steps) as stage:
        session = await killed_in_a_call(stage, host, waiting, "Begin.", "Go on.")
        told = replace(
            carried_of(host, {"Begin.": "Begin.", "Go on.": "Go on."}),
            heard=frozenset({"Begin.", "Go on."}),
        )
        resumed = {"resume_token": session.resume_token, "carried": told}
        async with stage.session(host, **resumed) as again:
            assert again.taken == {"Begin.", "Go on."}
        (path,) = transcripts(stage)
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(lines[: next(n for n, x in enumerate(lines) if b"Go on." in x)]))
        async with stage.session(host, **resumed) as again:
            assert again.taken == {"Begin."}
            await run_turn(again, "Go on.")
            assert [stage.prompts().count(text) for text in ("Begin.", "Go on.")] == [1, 1]


@pytest.mark.parametrize("is_heard", [True, False])
async def test_a_text_that_was_put_into_a_turn_is_known_by_its_words_once_it_was_heard(
    claude, is_heard
):
    """The ledger's id of it is nowhere; one that was not heard is told in any case."""
    waiting = asyncio.Event()

    async def note(**_):
        assert await session.steer("Look left.")
        return ToolOutcome(text="noted")

    host = RecordingHost(note=note, ask_parent=forever(waiting))
    steps = [{"call": call("note", "n")}, {"call": call("ask_parent", "q")}]
    async with claude(*steps) as stage:
        async with stage.session(host) as session, asyncio.TaskGroup() as group:
            turn = group.create_task(run_turn(session, "Begin."))
            await waiting.wait()
            await until(lambda: is_written(stage, "queued_command"))
            stage.services.processes[-1].kill()
            await turn
        prompts = {"left": "Look left.", "right": "Look right."}
        heard = frozenset(prompts if is_heard else ())
        told = replace(carried_of(host, prompts), heard=heard)
        async with stage.session(host, resume_token=session.resume_token, carried=told) as again:
            assert ("left" in again.taken, "right" in again.taken) == (is_heard, False)
