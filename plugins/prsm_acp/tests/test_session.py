"""A session over ACP with the small agent: servers, modes, models, prompts, cancels, ends."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace as changed
from pathlib import Path

import pytest
from msgspec.structs import replace
from prsm_acp.manifest import UsageFrom
from prsm_testing.doubles import (
    RecordingHost,
    answers,
    completes,
    only,
    run_turn,
    session_request,
    turn_context,
    until,
)
from prsm_testing.misbehaving_team import RushClock
from prsm_testing.provider_scene import call, end, error, failure, reason

from plugins.prsm_acp.tests.fake_manifest import MANIFEST
from prsm_core.domain.boxes import Box
from prsm_core.domain.images import Image
from prsm_core.domain.permissions import Deny
from prsm_core.domain.tools import McpServer, ToolOutcome
from prsm_core.domain.turns import (
    AssistantMessage,
    ErrorKind,
    Notice,
    StopReason,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
    TurnEnded,
    UsageReported,
)
from prsm_core.errors import ModelNotAvailableError, OrchestrationError, ProviderNotAvailableError
from tests.engine.boxes import needs_runc, python_places

LOST = "session-that-is-gone"


async def rush_once_begun(scene, clock):
    """Let time pass a hundred times as fast once the fault of a scene has begun."""
    await until(lambda: (scene.services.state_dir.parent / "marks" / "begun").exists())
    clock.rush(100)


def kept_state(scene):
    """Return what the agent has kept of its only session."""
    (path,) = (scene.services.state_dir / "sessions").glob("*.json")
    return json.loads(path.read_text())


async def test_a_users_server_is_passed_on_and_its_tools_are_asked_for(scene, tmp_path):
    other = RecordingHost(find=answers("found"))
    host = RecordingHost(verdict=lambda _: Deny("no searching"))
    async with (
        other.mcp_endpoint() as endpoint,
        scene({"call": call("find", "f", text="x")}, {"say": "done"}) as played,
        played.session(
            host,
            mcp_servers={
                "docs": McpServer(
                    command=endpoint.argv[0], args=endpoint.argv[1:], env=endpoint.env
                )
            },
        ) as session,
    ):
        events = await run_turn(session, "Find.")
        assert played.outputs("f") == ["the user said no"]
    (asked,) = host.requests
    assert (asked.tool, asked.arguments, asked.command) == (
        "mcp__docs__find",
        {"text": "x"},
        None,
    )
    assert [(e.tool, e.arguments) for e in only(ToolCallStarted, events)] == [
        ("mcp__docs__find", {"text": "x"})
    ]
    assert other.calls == []


async def test_a_server_by_url_is_refused_where_the_agent_takes_none(scene, monkeypatch):
    servers = {"docs": McpServer(url="http://127.0.0.1:1/mcp", headers={"A": "b"})}
    async with scene() as played:
        with pytest.raises(ProviderNotAvailableError, match="no MCP server by URL, such as docs"):
            await played.session(mcp_servers=servers).__aenter__()
    async with (
        scene({"say": "done"}, settings={"env": {"FAKE_HTTP": "1"}}) as played,
        played.session(mcp_servers=servers) as session,
    ):
        assert reason(await run_turn(session, "Hello.")) is StopReason.END_TURN


async def test_a_users_server_may_not_take_the_name_of_prsms_own(scene):
    async with scene() as played:
        with pytest.raises(ProviderNotAvailableError, match="'prsm' is PRSM's own"):
            await played.session(mcp_servers={"prsm": McpServer(command="x")}).__aenter__()
        assert played.services.processes == []


@pytest.mark.parametrize("takes", [True, False])
async def test_an_image_is_shown_to_an_agent_that_takes_images_and_told_of_to_others(
    scene, tmp_path, takes
):
    file = tmp_path / "a.png"
    file.write_bytes(b"pixels")
    image = Image(mark="![a.png](m)", name="a.png", media_type="image/png", path=str(file))
    context = replace(turn_context("what is ![a.png](m)"), images=(image,))
    settings = {"env": {"FAKE_IMAGES": "1" if takes else ""}}
    async with (
        scene({"say": "seen"}, settings=settings) as played,
        played.session(RecordingHost()) as session,
    ):
        events = [event async for event in session.run_turn(context)]
        heard = "\n".join(played.heard.user)
    block = {"type": "image", "mimeType": "image/png", "data": "cGl4ZWxz"}
    assert (json.dumps(block) in heard) is takes
    assert "what is ![a.png](m)" in heard
    told = [notice.text for notice in only(Notice, events)]
    assert len(told) == (0 if takes else 1)
    for text in told:
        assert text.startswith("the image a.png is not shown: ")
        assert text.endswith(" takes no images")


async def test_an_agent_without_prsms_tools_is_not_let_into_a_turn(scene):
    clock, host = RushClock(), RecordingHost(note=answers("noted"))
    async with scene(fault="ignores_servers", clock=clock) as played:
        played.services.start_soon(rush_once_begun, played, clock, name="rush")
        with pytest.raises(
            ProviderNotAvailableError, match="fake did not start the server"
        ) as told:
            await played.session(host).__aenter__()
        assert told.value.hint
        assert played.services.live == []


@pytest.mark.parametrize(("cut", "patience"), [(600, 480), (None, None)])
async def test_calls_are_answered_before_an_agent_cuts_them_off(scene, cut, patience):
    asked = []

    class Patient(RecordingHost):
        def mcp_endpoint(self, *, patience_s=None):
            asked.append(patience_s)
            return super().mcp_endpoint(patience_s=patience_s)

    async with scene(cuts_calls_s=cut) as played, played.session(Patient(note=answers("x"))):
        assert asked == [patience]


async def test_the_agent_is_put_into_the_mode_that_asks_and_gets_its_model(scene):
    async with (
        scene({"say": "done"}) as played,
        played.session(model="scripted-2") as session,
    ):
        await run_turn(session, "Hello.")
        assert (kept_state(played)["mode"], kept_state(played)["model"]) == ("ask", "scripted-2")


async def test_a_mode_or_a_model_that_is_not_there_is_told(scene):
    async with scene(settings={"mode": "yolo"}) as played:
        with pytest.raises(ProviderNotAvailableError, match="has no mode 'yolo'") as told:
            await played.session().__aenter__()
        assert "its modes: ask, free" in str(told.value.hint)
    async with scene() as played:
        with pytest.raises(ModelNotAvailableError, match="has no model 'x'") as lacking:
            await played.session(model="x").__aenter__()
        assert lacking.value.hint == "its models: scripted-1, scripted-2"


async def test_a_login_that_is_missing_is_told_with_the_cure(scene):
    async with scene(fault="wants_a_login") as played:
        with pytest.raises(ProviderNotAvailableError) as told:
            await played.session().__aenter__()
    assert told.value.message == "fake could not open a session: Authentication required"
    assert told.value.hint == "Log in: nothing to do."


async def test_the_role_is_told_once(scene):
    async with scene({"say": "one"}, {"say": "two"}) as played, played.session() as session:
        await run_turn(session, "First.")
        await run_turn(session, "Second.")
        assert played.times("You are w1.") == 1
        assert played.times("<role>") == 1


async def test_a_session_that_is_spoilt_by_a_cancel_is_ended_at_once(scene):
    async with (
        scene({"say": "a b", "hang": True}, reusable_after_cancel=False) as played,
        played.session() as session,
        asyncio.TaskGroup() as group,
    ):
        turn = group.create_task(run_turn(session, "Hello."))
        await played.stage.model.wait_for_requests(1)
        await session.interrupt()
        assert reason(await turn) is StopReason.ABORTED
        assert not session.reusable
        await until(lambda: not played.services.live)


async def test_a_cancel_that_is_not_heard_ends_the_turn_anyway(scene):
    clock = RushClock()
    async with (
        scene(fault="is_deaf_to_a_cancel", clock=clock) as played,
        played.session() as session,
        asyncio.TaskGroup() as group,
    ):
        turn = group.create_task(run_turn(session, "Hello."))
        await rush_once_begun(played, clock)
        await session.interrupt()
        events = await turn
        assert not session.reusable
    assert reason(events) is StopReason.ABORTED
    assert "did not confirm" in only(Notice, events)[-1].text


async def test_a_cancel_answers_what_is_being_asked(scene):
    asked = asyncio.Event()

    class Undecided(RecordingHost):
        async def authorize(self, request):
            asked.set()
            await asyncio.Event().wait()

    async with (
        scene({"shell": "echo hi > made.txt"}, {"say": "more"}) as played,
        played.session(Undecided()) as session,
        asyncio.TaskGroup() as group,
    ):
        turn = group.create_task(run_turn(session, "Do it."))
        await asked.wait()
        await session.interrupt()
        events = await turn
        assert session.reusable
        assert not (played.cwd / "made.txt").exists()
        assert reason(await run_turn(session, "Go on.")) is StopReason.END_TURN
    assert reason(events) is StopReason.ABORTED
    assert only(ToolCallFinished, events) == []


async def test_closing_a_stream_whose_reader_is_far_behind_takes_no_time(scene):
    async with scene(fault="event_flood") as played, played.session() as session:
        stream = session.run_turn(turn_context("Hello."))
        await stream.__anext__()
        async with asyncio.timeout(3):
            await stream.aclose()


async def test_a_failed_prompt_leaves_a_session_only_where_the_history_keeps_it(scene):
    for kept in (True, False):
        async with (
            scene(failure(429), reusable_after_error=kept) as played,
            played.session() as session,
        ):
            events = await run_turn(session, "Hello.")
            assert (error(events).kind, session.reusable) == (ErrorKind.RATE_LIMIT, kept)


async def test_a_process_that_dies_between_turns_is_found_by_the_next(scene):
    async with scene({"say": "one"}) as played, played.session() as session:
        await run_turn(session, "Hello.")
        process = played.services.processes[-1]
        process.kill()
        await process.wait()  # else it may still answer what comes next
        events = await run_turn(session, "Go on.")
        assert not session.reusable
    assert error(events).retryable
    assert "killed by signal 9" in error(events).message


async def test_a_session_that_the_agent_has_lost_is_told_as_one_to_be_rebuilt(scene):
    async with scene(loads=True) as played:
        with pytest.raises(ProviderNotAvailableError, match="does not know the session") as told:
            await played.session(resume_token=LOST).__aenter__()
        assert told.value.code == "resume_failed"
    async with scene() as played:
        with pytest.raises(ProviderNotAvailableError, match="cannot go on") as told:
            await played.session(resume_token=LOST).__aenter__()
        assert told.value.code == "resume_failed"


async def test_the_replay_of_a_loaded_session_is_no_event_of_its_next_turn(scene):
    async with scene({"say": "one"}, {"say": "two"}, loads=True) as played:
        async with played.session() as session:
            await run_turn(session, "Hello.")
            token = session.resume_token
        async with played.session(resume_token=token) as session:
            events = await run_turn(session, "Go on.")
        assert played.times("<role>") == 1
    assert [message.text for message in only(AssistantMessage, events)] == ["two"]
    assert "".join(delta.text for delta in only(TextDelta, events)) == "two"


async def test_an_agent_that_cannot_be_trusted_to_load_gives_no_token(scene):
    async with scene({"say": "one"}) as played, played.session() as session:
        await run_turn(session, "Hello.")
        assert session.resume_token is None


async def test_what_an_agent_needed_on_disk_goes_with_its_session(scene):
    async with scene() as played:
        async with played.session():
            (home,) = (played.services.state_dir / "agents").iterdir()
            assert home.stat().st_mode & 0o777 == 0o700
        assert not home.exists()


async def test_two_turns_at_once_are_refused(scene):
    async with (
        scene({"say": "a b", "hang": True}) as played,
        played.session() as session,
        asyncio.TaskGroup() as group,
    ):
        turn = group.create_task(run_turn(session, "Hello."))
        await played.stage.model.wait_for_requests(1)
        with pytest.raises(OrchestrationError, match="running already"):
            await run_turn(session, "again")
        await session.interrupt()
        await turn


async def test_a_turn_is_cancelled_at_its_task_complete_and_the_next_one_begins_anew(scene):
    host = RecordingHost(task_complete=completes, note=answers("noted"))
    late = {"call": call("note", "late", text="x")}
    async with (
        scene({"call": call("task_complete", "d", text="all")}, late, {"say": "bye"}) as played,
        played.session(host) as session,
    ):
        events = await run_turn(session, "Finish.")
        assert (session.reusable, session.resume_token) == (False, None)
        await until(lambda: not played.services.live)
        assert len(played.stage.model.requests) == 1
        async with played.session(RecordingHost(note=answers("noted"))) as again:
            await run_turn(again, "One thing more.")
            assert played.outputs("late") == ["noted"]
    assert [asked.name for asked in host.calls] == ["task_complete"]
    assert end(events) == TurnEnded(StopReason.END_TURN)


async def test_a_session_that_could_be_loaded_is_not_loaded_behind_its_task_complete(scene):
    """What the agent has kept of that turn is not what happened."""
    host = RecordingHost(task_complete=completes)
    step = {"call": call("task_complete", "d", text="all")}
    async with scene(step, {"say": "bye"}, loads=True) as played, played.session(host) as session:
        assert session.resume_token is not None
        await run_turn(session, "Finish.")
        assert session.resume_token is None


async def test_an_agent_that_hears_no_cancel_pays_for_nothing_more_either(scene):
    host, clock = RecordingHost(task_complete=completes), RushClock()
    step = {"call": call("task_complete", "d", text="all")}
    async with (
        scene(step, {"say": "bye"}, fault="hears_no_cancel", clock=clock) as played,
        played.session(host) as session,
        asyncio.TaskGroup() as group,
    ):
        turn = group.create_task(run_turn(session, "Finish."))
        await until(lambda: bool(host.calls))
        clock.rush(100)
        events = await turn
        await until(lambda: not played.services.live)
        assert len(played.stage.model.requests) == 1
    assert reason(events) is StopReason.END_TURN
    assert "did not confirm" in only(Notice, events)[-1].text


async def test_what_a_cancelled_turn_has_used_is_read_from_the_agents_own_files(scene):
    """Its answer tells none; what an earlier turn was told is not told again."""
    folders, used = [], {"input_tokens": 110, "output_tokens": 11}

    def kept(folder, session_id):
        folders.append(folder)
        return used if session_id else {}

    manifest = changed(MANIFEST, usage=UsageFrom.TURN, kept_tokens=kept)
    small = {"input_tokens": 100, "output_tokens": 10}
    steps = {"say": "one", "usage": small}, {"say": "a b", "hang": True}
    async with scene(*steps, manifest=manifest) as played, played.session() as session:
        await run_turn(session, "Hello.")
        async with asyncio.TaskGroup() as group:
            turn = group.create_task(run_turn(session, "More."))
            await played.stage.model.wait_for_requests(2)
            await session.interrupt()
    (report,) = only(UsageReported, turn.result())
    assert (report.usage.input_tokens, report.usage.output_tokens) == (10, 1)
    assert folders == [Path.home()]


async def test_every_agent_has_a_process_of_its_own(scene):
    together = asyncio.Barrier(2)

    async def meet(text):
        await together.wait()
        return ToolOutcome(text=text)

    step = {"call": call("meet", "m", text="x")}
    async with scene(step, step, {"say": "done"}, {"say": "done"}) as played:
        hosts = [RecordingHost(meet=meet), RecordingHost(meet=meet)]
        ids = ["a" * 32, "b" * 32]

        async def one(host, agent_id):
            request = session_request(played.cwd, agent_id=agent_id)
            async with played.provider.open_session(request, host) as session:
                return await run_turn(session, "Meet.")

        async with asyncio.TaskGroup() as group:
            turns = [
                group.create_task(one(host, agent_id))
                for host, agent_id in zip(hosts, ids, strict=True)
            ]
        assert len(played.services.processes) == 2
    assert all(reason(turn.result()) is StopReason.END_TURN for turn in turns)


@needs_runc
async def test_a_turn_in_a_box_reaches_its_tools_and_the_model(scene):
    box, host = Box(network=True, mounts=python_places()), RecordingHost(task_complete=completes)
    step = {"call": call("task_complete", "done", text="x")}
    async with scene(step, {"say": "bye"}) as at, at.session(host, box=box) as session:
        events = await run_turn(session, "hi")
    assert [asked.name for asked in host.calls] == ["task_complete"]
    assert reason(events) is StopReason.END_TURN
