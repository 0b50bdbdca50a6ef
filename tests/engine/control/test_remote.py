"""A frontend in another process: what it loses when it is slow, and what it is told at the end."""

import asyncio
import json
import subprocess
import sys
from contextlib import AsyncExitStack, aclosing
from typing import Any

import pytest
from msgspec import Struct
from prsm_testing import ScriptedApp
from prsm_testing.fake_clock import FakeClock

from prsm_core.domain.tools import McpServer
from prsm_core.engine.control.client import open_control
from prsm_core.engine.control.operations import Operation
from prsm_core.engine.control.remote import open_remote
from prsm_core.engine.control.server import MAX_CONNECTIONS
from prsm_core.engine.control.wire import ANSWER_LIMIT, PROTOCOL
from prsm_core.errors import ConfigError, ControlError, MessageRoutingError
from tests.engine.control_peers import DEADLINE, PING, SESSION, connected, keyed, serving
from tests.engine.door.scenes import local_scene
from tests.sources import ROOT


async def read_all(app, seen):
    """Read until the events end; return why, if by an error."""
    try:
        async for event in app.events():
            seen.append(event)
    except ControlError as error:
        return error.code
    return None


async def until(condition):
    async with asyncio.timeout(DEADLINE):
        while not condition():  # noqa: ASYNC110 - what it waits for tells nobody
            await asyncio.sleep(0)


async def test_an_owner_that_is_killed_ends_each_of_five_readers_with_its_reason(tmp_path):
    argv = [sys.executable, "-m", "tests.engine.control.follower_owner", str(tmp_path)]
    owner = await asyncio.to_thread(
        subprocess.Popen, argv, cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    try:
        assert owner.stdout is not None
        assert await asyncio.to_thread(owner.stdout.readline) == "owned\n"
        seen: list[list[Any]] = [[] for _ in range(5)]
        async with open_remote(tmp_path, SESSION) as app, asyncio.timeout(DEADLINE):
            async with asyncio.TaskGroup() as group:
                readers = [group.create_task(read_all(app, each)) for each in seen]
                await until(lambda: all(seen))
                owner.kill()
            assert [reader.result() for reader in readers] == ["no_answer"] * 5
        assert [[event.type for event in each] for each in seen] == [["run_started"]] * 5
    finally:
        owner.kill()
        await asyncio.to_thread(owner.communicate)


async def test_a_session_that_is_closed_tells_its_readers_all_up_to_its_last_event(tmp_path):
    app = ScriptedApp()
    seen: list[Any] = []
    async with asyncio.TaskGroup() as group, asyncio.timeout(DEADLINE):
        async with serving(tmp_path, app), open_remote(tmp_path, SESSION) as remote:
            run = await remote.runs.start("count")
            reading = group.create_task(read_all(remote, seen))
            await until(lambda: seen)
            for number in range(3000):
                app.say("notice", level="info", text=f"{number}")
            app.finish()
            assert (await run.result()).status == "completed"
        assert await reading is None
    assert [event.seq for event in seen] == list(range(1, 3003))
    assert seen[-1].type == "run_finished"
    assert app.readers == 0


@pytest.mark.requirement("D3")
async def test_readers_are_told_how_a_run_ended_that_its_owner_was_told_to_end(tmp_path):
    async with local_scene(tmp_path / "owner") as scene:
        seen: list[list[Any]] = [[], []]
        async with asyncio.TaskGroup() as group, asyncio.timeout(DEADLINE):
            state = tmp_path / "state"
            async with (
                serving(state, scene.app, end=scene.app.aclose),
                open_remote(state, SESSION) as remote,
            ):
                run = await remote.runs.start("count")
                await scene.say("one")
                readers = [group.create_task(read_all(remote, each)) for each in seen]
                result = group.create_task(run.result())
                await until(lambda: all(seen))
            assert [await reader for reader in readers] == [None, None]
        for each in seen:
            last = [event for event in each if event.seq is not None][-1]
            assert (last.type, last.data["status"]) == ("run_finished", "interrupted")
        assert ((await result).status, (await result).exit_code) == ("interrupted", 130)


async def test_what_acts_is_refused_while_a_session_is_closed_and_looking_is_not(tmp_path):
    app, ending, ended = ScriptedApp(), asyncio.Event(), asyncio.Event()
    await app.runs.start("count")

    async def end():
        ending.set()
        await ended.wait()

    async with asyncio.TaskGroup() as group, asyncio.timeout(DEADLINE):
        owned, closed = asyncio.Event(), asyncio.Event()

        async def own():
            async with serving(tmp_path, app, end=end):
                owned.set()
                await closed.wait()

        owning = group.create_task(own())
        await owned.wait()
        async with open_control(tmp_path, SESSION) as client:
            await client.ping()
            closed.set()
            await ending.wait()
            with pytest.raises(ControlError) as refused:
                await client.agents.kill("m")
            assert refused.value.code == "closing"
            await client.requests.attend()
            assert (await client.agents.tree()).session
            ended.set()
            await owning
    assert (app.killed, app.attended) == ([], 1)


async def test_a_run_whose_session_is_closed_before_its_end_is_told_so(tmp_path):
    app = ScriptedApp()
    async with asyncio.TaskGroup() as group, asyncio.timeout(DEADLINE):
        async with serving(tmp_path, app), open_remote(tmp_path, SESSION) as remote:
            run = await remote.runs.start("count")
            waiting = group.create_task(run_result(run))
            for _ in range(100):
                await asyncio.sleep(0)
        assert (await waiting) in {"session_closed", "no_owner"}


async def run_result(run):
    with pytest.raises(ControlError) as closed:
        await run.result()
    return closed.value.code


async def test_a_reader_that_never_reads_is_cut_off_and_holds_nothing(tmp_path):
    clock, app = FakeClock(autojump=False), ScriptedApp()
    await app.runs.start("count")
    async with serving(tmp_path, app, clock=clock) as path, connected(path) as deaf:
        deaf.write(keyed(path, "events", after=0))
        await until(lambda: app.readers == 1)
        for _ in range(400):
            app.say("notice", level="info", text="x" * 10_000)
        async with asyncio.timeout(DEADLINE):
            while app.readers:
                await clock.advance(31)
                await asyncio.sleep(0)
        async with connected(path) as other:
            other.write(PING)
            assert "ok" in json.loads(await other.read())


async def test_a_slow_reader_loses_deltas_and_is_told_how_many_but_no_event(tmp_path):
    async with local_scene(tmp_path / "owner") as scene:
        state = tmp_path / "state"
        async with serving(state, scene.app), open_remote(state, SESSION) as remote:
            await scene.app.runs.start("count")
            await scene.say("first")
            [master] = (await scene.app.agents.tree()).agents
            piece = "a word and " * 2000
            async with aclosing(remote.events()) as events:
                while (await anext(events)).type != "message_completed":
                    pass
                live = scene.team.engine.journal.live_text("text_delta", master.id)
                for _ in range(800):  # nobody reads meanwhile
                    live.feed(piece)
                    await asyncio.sleep(0)
                await scene.say("last")
                characters, told = 0, ""
                async for event in events:
                    if event.type == "text_delta":  # which may be several in one
                        characters += len(event.data["text"])
                    if event.type == "notice":
                        told = event.data["text"]
                    if event.data.get("text") == "last":
                        break
            lost = int(told.split()[0])
            assert "live updates were not shown" in told
            assert lost > 0
            assert characters / len(piece) + lost >= 799


async def test_a_subscriber_is_never_idle(tmp_path):
    clock, app = FakeClock(autojump=False), ScriptedApp()
    seen: list[Any] = []
    await app.runs.start("count")
    async with asyncio.TaskGroup() as group:
        async with serving(tmp_path, app, clock=clock), open_remote(tmp_path, SESSION) as remote:
            reading = group.create_task(read_all(remote, seen))
            await until(lambda: seen)
            await clock.advance(3600)
            app.say("notice", level="info", text="late")
            await until(lambda: len(seen) == 2)
        assert await reading is None


async def test_a_reader_that_leaves_frees_its_place(tmp_path):
    app = ScriptedApp()
    await app.runs.start("count")
    async with serving(tmp_path, app), open_remote(tmp_path, SESSION) as remote:
        for _ in range(2 * MAX_CONNECTIONS):
            async with aclosing(remote.events()) as events:
                assert (await anext(events)).seq == 1
            await until(lambda: app.readers == 0)


async def test_one_reader_too_many_is_refused_by_name_and_the_others_stay(tmp_path):
    app = ScriptedApp()
    await app.runs.start("count")
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(serving(tmp_path, app))
        remote = await stack.enter_async_context(open_remote(tmp_path, SESSION))
        readers = [
            await stack.enter_async_context(aclosing(remote.events()))
            for _ in range(MAX_CONNECTIONS)
        ]
        for reader in readers:
            assert (await anext(reader)).seq == 1
        for _ in range(20):
            with pytest.raises(ControlError) as refused:
                await remote.agents.tree()
            assert refused.value.code == "busy"
        app.say("notice", level="info", text="here")
        assert [(await anext(reader)).seq for reader in readers] == [2] * MAX_CONNECTIONS


@pytest.mark.parametrize("spoken", [PROTOCOL - 1, PROTOCOL + 1, None])
async def test_an_older_or_newer_owner_is_refused_by_name(tmp_path, spoken):
    async def ping(*_):
        return {"session": SESSION, "pid": 1, "protocol": spoken}

    async with serving(tmp_path, ping=Operation(ping, looks=True)):
        with pytest.raises(ControlError, match=f"speaks version {spoken} of the") as refused:
            async with open_remote(tmp_path, SESSION):
                pass
    assert refused.value.code == "other_version"


async def test_half_a_line_and_what_is_no_event_are_refused_by_name(tmp_path):
    async def strange(*_):
        return values()

    async def values():
        yield {"seq": 1, "type": "never_heard_of", "session": "s", "run": None, "ts": 1.0}

    app = ScriptedApp()
    async with (
        serving(tmp_path, app, events=Operation(strange, Struct)),
        open_remote(tmp_path, SESSION) as remote,
    ):
        seen: list[Any] = []
        assert await read_all(remote, seen) == "bad_answer"
    async with serving(tmp_path, app) as path, connected(path) as peer:
        peer.write(keyed(path, "events", after=0)[:-5])
        peer.end()
        assert await peer.read() == b""


def gives(value):
    """Return an operation that answers this, whatever it is asked."""

    async def answer(*_):
        return value

    return Operation(answer)


@pytest.mark.parametrize("strange", [None, [], "x", {"mode": "carefree"}, {"unheard": 1}])
async def test_options_that_are_none_to_this_version_are_refused_by_name(tmp_path, strange):
    async with serving(tmp_path, options=gives(strange)):
        with pytest.raises(ControlError) as refused:
            async with open_remote(tmp_path, SESSION):
                pass
    assert refused.value.code == "bad_answer"
    async with serving(tmp_path, ping=gives(strange)):
        with pytest.raises(ControlError) as refused:
            async with open_remote(tmp_path, SESSION):
                pass
    assert refused.value.code == "other_version"


@pytest.mark.parametrize("strange", [None, [], {}, {"status": "completed", "unheard": 1}])
async def test_a_result_that_is_none_to_this_version_is_refused_by_name(tmp_path, strange):
    async def values():
        yield strange

    async def answer(*_):
        return values()

    result = Operation(answer, Struct)
    async with (
        serving(tmp_path, ScriptedApp(), **{"runs.result": result}),
        open_remote(tmp_path, SESSION) as remote,
    ):
        run = await remote.runs.start("count")
        with pytest.raises(ControlError) as refused:
            await run.result()
    assert refused.value.code == "bad_answer"


async def test_an_answer_that_is_too_long_is_refused_by_name(tmp_path):
    async with (
        serving(tmp_path, ScriptedApp(), **{"agents.tree": gives("x" * ANSWER_LIMIT)}),
        open_remote(tmp_path, SESSION) as remote,
    ):
        with pytest.raises(ControlError, match="has more than") as refused:
            await remote.agents.tree()
    assert refused.value.code == "line_too_long"


async def test_what_a_run_may_have_of_its_own_goes_over_and_the_rest_is_refused(tmp_path):
    app = ScriptedApp()
    async with serving(tmp_path, app), open_remote(tmp_path, SESSION) as remote:
        servers = {"find": McpServer(command="search", args=("-q",), env={"A": "b"})}
        await remote.runs.start("x", effort="high", mcp_servers=servers)
        assert app.overrides == {"effort": "high", "mcp_servers": servers}
        with pytest.raises(ConfigError, match="on_ask"):
            await remote.runs.start("x", on_ask="allow")
        with pytest.raises(MessageRoutingError):
            await remote.agents.history("nobody")
