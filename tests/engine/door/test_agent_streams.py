"""The stream of one agent, and a run with its result, over this engine and over a socket."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest
from prsm_console.streams import (
    AgentPhase,
    Reasoning,
    StreamCallbacks,
    StreamEnd,
    StreamError,
    StreamStart,
    Token,
    ToolStatus,
    open_execution,
    open_stream,
)
from prsm_testing import ScriptedApp, until

from prsm_core import ConfigError, MessageRoutingError, RunOptions, TextDelta, ThinkingDelta
from prsm_core.engine.turns.fold import UNTOLD
from tests.engine.door.scenes import local_scene, remote_scene
from tests.engine.harness import DEADLINE, failed
from tests.engine.test_compaction import settings as small_window
from tests.engine.test_compaction import spoken, summarise

both_doors = pytest.mark.parametrize("scene_of", [local_scene, remote_scene])


@asynccontextmanager
async def opened_scene(scene_of, tmp_path, behaviours, **fields):
    """Give an application whose agents behave so."""
    async with scene_of(tmp_path, **fields) as scene, asyncio.timeout(DEADLINE):
        scene.team.provider.behaviours.update(behaviours)
        yield scene


async def watched(scene):
    """Let agents that wait for it go on once somebody reads."""
    await until(lambda: scene.team.engine.feed._readers)
    scene.team.provider.memory["watched"]["by"] = "the test"


def told_as(events):
    """Return stream events as adapters see them, without the names that are new in each run."""
    new = {"turn", "call", "session", "run", "agent"}
    return [
        {key: value for key, value in event.to_dict().items() if key not in new} for event in events
    ]


def text_of(events, message=1):
    return "".join(one.text for one in events if isinstance(one, Token) and one.message == message)


async def greet(agent):
    await until(lambda: agent.session.provider.memory["watched"])
    await agent.tell(ThinkingDelta("let me "), ThinkingDelta("think"), TextDelta("Hello "))
    await agent.tell(TextDelta("world"))
    await agent.say("Hello world", "let me think")
    await agent.start_tool("v1", "Read", path="a")
    await agent.end_tool("v1", result="first line\nsecond")
    await agent.start_tool("v2", "Read", path="b")
    await agent.end_tool("v2", status="denied", result=None, error="not this one")
    await agent.say("a message without pieces")
    await agent.start_tool("v3", "Read", path="c")  # of which nobody tells the end
    await agent.complete("done")


@pytest.mark.requirement("N20")
@pytest.mark.requirement("N21")
@both_doors
async def test_a_run_is_streamed_by_callbacks_and_events_from_its_start_to_its_end(
    tmp_path, scene_of
):
    called: dict[str, list[Any]] = {"reply": [], "reasoning": [], "tool": [], "agent": []}
    callbacks = StreamCallbacks(
        on_partial_reply=called["reply"].append,
        on_reasoning_stream=called["reasoning"].append,
        on_tool_result=called["tool"].append,
        on_agent_event=called["agent"].append,
    )
    events: list[Any] = []
    async with (
        opened_scene(scene_of, tmp_path, {"master": greet}) as scene,
        open_execution(scene.app, "greet", callbacks) as execution,
    ):
        execution.stream.on_event(events.append)
        await watched(scene)
        result = await execution.result()
        assert await execution.stream.ended() is events[-1]
    assert (result.status, result.summary) == ("completed", "done")
    first = events[0]
    assert isinstance(first, StreamStart)
    assert (first.session, first.run) == (execution.run.session, execution.run.run_id)
    assert told_as(events) == [
        {"type": "stream_start", "n": 1},
        {"type": "reasoning", "text": "let me ", "message": 1},
        {"type": "reasoning", "text": "think", "message": 1},
        {"type": "token", "text": "Hello ", "message": 1},
        {"type": "token", "text": "world", "message": 1},
        {"type": "tool_status", "tool": "Read", "status": "started", "summary": None},
        {"type": "tool_status", "tool": "Read", "status": "completed", "summary": "first line…"},
        {"type": "tool_status", "tool": "Read", "status": "started", "summary": None},
        {"type": "tool_status", "tool": "Read", "status": "failed", "summary": "not this one"},
        {"type": "token", "text": "a message without pieces", "message": 2},
        {"type": "tool_status", "tool": "Read", "status": "started", "summary": None},
        {"type": "tool_status", "tool": "task_complete", "status": "started", "summary": None},
        *[event for event in told_as(events) if event.get("tool") == "task_complete"][1:],
        {"type": "tool_status", "tool": "Read", "status": "unknown", "summary": UNTOLD},
        {"type": "stream_end", "stop_reason": "end_turn", "final": True},
    ]
    assert called["reply"] == [one for one in events if isinstance(one, Token)]
    assert called["reasoning"] == [one for one in events if isinstance(one, Reasoning)]
    assert called["tool"] == [one for one in events if isinstance(one, ToolStatus)]
    assert {one.call for one in called["tool"][:2]} == {"v1"}
    assert [one.phase for one in called["agent"]] == [
        *("start", "streaming", "tool_use", "streaming", "tool_use", "end"),
    ]
    assert all(isinstance(one, AgentPhase) and one.at for one in called["agent"])


@pytest.mark.requirement("N20")
@pytest.mark.requirement("N22")
@both_doors
async def test_a_compaction_is_told_by_its_phases_also_to_who_comes_in_the_middle_of_it(
    tmp_path, scene_of
):
    began, go_on = asyncio.Event(), asyncio.Event()

    async def summarise_slowly(agent):
        began.set()
        await go_on.wait()
        await summarise(agent)

    behaviours = {"master": spoken(20), "master-summary": summarise_slowly}
    told: list[AgentPhase] = []
    events: list[Any] = []
    fields = {"settings": small_window()}
    async with (
        opened_scene(scene_of, tmp_path, behaviours, **fields) as scene,
        open_execution(scene.app, "do", StreamCallbacks(on_agent_event=told.append)) as execution,
    ):
        execution.stream.on_event(events.append)
        await began.wait()
        await until(execution.stream.is_compacting)
        assert not execution.stream.is_streaming()
        rest: list[AgentPhase] = []
        callbacks = StreamCallbacks(on_agent_event=rest.append)
        async with open_stream(scene.app, "master", callbacks) as late:
            assert late.is_compacting()
            go_on.set()
            await late.ended()
            assert not late.is_compacting()
        assert [one.phase for one in rest] == ["compaction_end", "start", "tool_use", "end"]
        await execution.result()
        assert not execution.stream.is_compacting()
    phases = [one.phase for one in told]
    assert phases[:2] == ["start", "streaming"]
    assert phases[2:] == ["end", "compaction_start", "compaction_end", "start", "tool_use", "end"]
    failure = next(one for one in events if isinstance(one, StreamError))
    assert (failure.partial, failure.final) == (True, False)
    assert "too long" in failure.error
    assert [type(one) for one in events[-1:]] == [StreamEnd]


@pytest.mark.requirement("N22")
@both_doors
async def test_a_turn_is_steered_and_an_agent_aborted_by_its_handle(tmp_path, scene_of):
    steered: list[str] = []

    async def w1(agent):
        steered.append(await agent.steered.get())
        await agent.begin_to_say("on it ")
        await agent.hang()

    async def master(agent):
        await agent.spawn("work")
        await agent.collect()
        await agent.complete("done")

    fields = {"steers": True}
    events: list[Any] = []
    async with (
        opened_scene(scene_of, tmp_path, {"master": master, "w1": w1}, **fields) as scene,
        open_execution(scene.app, "do it") as execution,
    ):
        await scene.team.seen("turn_started", "w1")
        async with open_stream(scene.app, "w1") as stream:
            stream.on_event(events.append)
            assert stream.is_streaming()
            assert await stream.steer("look at b") is True
            await until(lambda: text_of(events) == "on it ")
            scene.team.provider.steers = False
            assert await stream.steer("later") is False  # it is kept for the next turn
            assert await stream.abort() is True
            end = await stream.ended()
            assert not stream.is_streaming()
            assert await stream.abort() is False
            with pytest.raises(MessageRoutingError) as ended:
                await stream.steer("too late")
            assert ended.value.code == "agent_ended"
        assert end == StreamEnd(turn=end.turn, stop_reason="aborted", final=True)
        with pytest.raises(MessageRoutingError) as over:
            async with open_stream(scene.app, "w1"):
                pytest.fail("it has ended")
        assert over.value.code == "agent_ended"
        assert (await execution.result()).status == "completed"
        assert await execution.stream.abort() is False
    [text] = steered
    assert "look at b" in text


@pytest.mark.requirement("N22")
@both_doors
async def test_aborting_an_execution_interrupts_the_run(tmp_path, scene_of):
    async def master(agent):
        await agent.begin_to_say("for ever ")
        await agent.hang()

    events: list[Any] = []
    async with (
        opened_scene(scene_of, tmp_path, {"master": master}) as scene,
        open_execution(scene.app, "do it") as execution,
    ):
        execution.stream.on_event(events.append)
        await until(lambda: text_of(events) == "for ever ")
        assert execution.stream.is_streaming()
        assert await execution.stream.abort() is True
        result = await execution.result()
    assert result.status == "interrupted"
    assert told_as(events[-1:]) == [{"type": "stream_end", "stop_reason": "aborted", "final": True}]


@pytest.mark.requirement("N21")
async def test_an_attempt_that_fails_is_an_error_that_is_not_final(tmp_path):
    async def master(agent):
        await agent.begin_to_say("half")
        raise failed("the model broke", retryable=agent.turn == 1)

    events: list[Any] = []
    async with (
        opened_scene(local_scene, tmp_path, {"master": master}) as scene,
        open_execution(scene.app, "do it") as execution,
    ):
        execution.stream.on_event(events.append)
        assert (await execution.result()).status == "failed"
    error = {"type": "stream_error", "error": "the model broke", "partial": True}
    assert told_as(events) == [
        {"type": "stream_start", "n": 1},
        {"type": "token", "text": "half", "message": 1},
        {**error, "final": False},
        {"type": "stream_start", "n": 2},
        {"type": "token", "text": "half", "message": 1},
        {**error, "final": True},
    ]


@pytest.mark.requirement("N23")
@both_doors
async def test_each_piece_of_a_provider_is_a_token_of_its_own(tmp_path, scene_of):
    """Also what comes while something of the agent is being written, which it has to wait for."""
    pieces = [f"{number} " for number in range(60)]

    async def master(agent):
        await until(lambda: agent.session.provider.memory["watched"])
        for number, piece in enumerate(pieces):
            if number % 6 == 0:
                await agent.start_tool(f"v{number}", "Read", path=f"{number}")
                await agent.end_tool(f"v{number}")
            await agent.tell(TextDelta(piece))
        await agent.say("".join(pieces))
        await agent.complete()

    events: list[Any] = []
    async with (
        opened_scene(scene_of, tmp_path, {"master": master}) as scene,
        open_execution(scene.app, "count") as execution,
    ):
        execution.stream.on_event(events.append)
        await watched(scene)
        await execution.result()
    assert [one.text for one in events if isinstance(one, Token)] == pieces


@pytest.mark.requirement("N23")
@both_doors
async def test_what_is_streamed_and_what_is_kept_have_no_part_in_each_other(tmp_path, scene_of):
    """Text is told before anything has it; a stream that breaks or is left changes no ledger."""
    go_on = asyncio.Event()

    async def master(agent):
        await agent.begin_to_say("Hello ")
        await go_on.wait()
        await agent.begin_to_say("world")
        await agent.say("Hello world")
        await agent.complete("done")

    def fail(token):
        raise ValueError(token.text)

    async with opened_scene(scene_of, tmp_path, {"master": master}) as scene:
        seen: list[Any] = []
        async with open_execution(scene.app, "greet") as execution:
            execution.stream.on_event(seen.append)
            await until(lambda: text_of(seen) == "Hello ")
        assert not scene.team.ledger.events("message_completed", "assistant")
        with pytest.raises(ConfigError) as left:
            await execution.stream.ended()
        assert left.value.code == "stream_left"
        with pytest.raises(ValueError, match="Hello"):
            async with open_stream(scene.app, "master", StreamCallbacks(on_partial_reply=fail)):
                await asyncio.Event().wait()
        joined: list[Any] = []
        async with open_stream(scene.app, "master") as late:
            late.on_event(joined.append)
            await until(lambda: text_of(joined) == "Hello ")
            go_on.set()
            assert isinstance(await late.ended(), StreamEnd)
        assert (await execution.run.result()).status == "completed"
        assert [one.text for one in joined if isinstance(one, Token)] == ["Hello ", "world"]
        assert isinstance(joined[0], StreamStart)
        said = [each for each in await scene.app.agents.history("master") if each.kind == "text"]
        assert [each.text for each in said] == ["Hello world"]
        await until(lambda: not scene.team.engine.feed._readers)


async def test_whoever_is_cancelled_leaves_no_reader_and_the_run_goes_on(tmp_path):
    reached, go_on = asyncio.Event(), asyncio.Event()

    async def master(agent):
        await go_on.wait()
        await agent.complete("done")

    async def stream(app):
        async with open_stream(app, "master") as opened:
            reached.set()
            await opened.ended()

    async with opened_scene(local_scene, tmp_path, {"master": master}) as scene:
        run = await scene.app.runs.start("wait")
        await scene.team.seen("turn_started", "master")
        async with asyncio.TaskGroup() as group:
            streaming = group.create_task(stream(scene.app))
            await reached.wait()
            await until(lambda: scene.team.engine.feed._readers)
            streaming.cancel()
        assert not scene.team.engine.feed._readers
        go_on.set()
        assert (await run.result()).status == "completed"


async def test_a_stream_whose_session_is_closed_ends_as_an_error(tmp_path):
    async with local_scene(tmp_path) as scene:
        scene.team.provider.behaviours["master"] = lambda agent: agent.hang()
        await scene.app.runs.start("wait")
        await scene.team.seen("turn_started", "master")
        async with open_stream(scene.app, "master") as stream:
            await scene.app.aclose()
            end = await stream.ended()
    assert end.final
    assert end == StreamEnd(turn=end.turn, stop_reason="aborted", final=True)


async def master_of_a_double(kind=ScriptedApp):
    app = kind(RunOptions(workspace="."))
    await app.runs.start("count")
    app.spawn()
    app.say("agent_state_changed", "m", **{"from": "starting", "to": "running"})
    return app


async def test_what_a_slow_reader_has_lost_comes_with_the_rest_of_its_message():
    app = await master_of_a_double()
    events: list[Any] = []
    async with asyncio.timeout(DEADLINE), open_stream(app, "m") as stream:
        stream.on_event(events.append)
        await until(lambda: app.readers)
        app.say("turn_started", "m", turn="t", n=1)
        of: dict[str, Any] = {"turn": "t", "message": 1}
        for at, text in ((0, "one "), (4, "two "), (14, "four "), (19, "five")):
            app.say("text_delta", "m", live=True, at=at, text=text, **of)
        whole = "one two three four five"
        app.say("message_completed", "m", **of, role="assistant", text=whole)
        app.finish()
        await stream.ended()
    assert [one.text for one in events if isinstance(one, Token)] == [
        *("one ", "two ", "three four five"),
    ]


async def test_a_stream_ends_as_an_error_where_its_events_end_before_the_agent():
    class CutOff(ScriptedApp):
        async def events(self, after=0):
            async with aclosing(super().events(after)) as events:
                async for event in events:
                    yield event
                    if event.type == "text_delta":
                        return

    app = await master_of_a_double(CutOff)
    async with asyncio.timeout(DEADLINE), open_stream(app, "m") as stream:
        await until(lambda: app.readers)
        app.say("turn_started", "m", turn="t", n=1)
        app.say("text_delta", "m", live=True, turn="t", message=1, at=0, text="half")
        end = await stream.ended()
    assert end == StreamError(turn="t", error="the session was closed", partial=True, final=True)


async def test_an_agent_that_there_is_not_has_no_stream():
    app = await master_of_a_double()
    with pytest.raises(MessageRoutingError) as unknown:
        async with open_stream(app, "nobody"):
            pytest.fail("there is none")
    assert unknown.value.code == "unknown_agent"
