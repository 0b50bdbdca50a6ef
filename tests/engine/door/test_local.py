"""What a frontend sees and does on a real engine, beyond the contract of every application."""

import asyncio
import itertools
import sqlite3
import threading
from contextlib import aclosing, closing
from pathlib import Path
from typing import Any, cast

import pytest
from prsm_testing import MemoryStore
from prsm_testing.store_contract import Steps

from prsm_core.domain.agents import PermissionMode
from prsm_core.domain.events import Event
from prsm_core.domain.permissions import Answer
from prsm_core.domain.tools import McpServer
from prsm_core.door import ResultEntry, UnwrittenMessage
from prsm_core.engine.control.remote import open_remote
from prsm_core.engine.door.completion import complete_word
from prsm_core.engine.door.history import read_history
from prsm_core.engine.door.local import LocalApp
from prsm_core.engine.journal.views import TALK
from prsm_core.errors import ControlError, PrsmError, StoreError
from prsm_core.interfaces.frontend import RunOptions
from prsm_core.store import SqliteStore
from prsm_core.store.event_log import read_last
from tests.engine import control_peers
from tests.engine.control_peers import serving
from tests.engine.deaths import die, go_on, run_to_death
from tests.engine.door.scenes import local_scene, remote_scene
from tests.engine.harness import SESSION
from tests.engine.mcp_programs import server_program

PIECE = "The next message begins with a few words, and goes on. "


async def spawned(steps, store):
    await store.commit(steps.run_started())
    await store.commit(steps.spawn("master"))
    return steps.agent("master")


def event(kind, agent, **data):
    return Event(type=kind, session="s1", run="r", ts=1.0, agent=agent, data=data)


def said(agent, text):
    return event("message_completed", agent, turn="t", role="assistant", text=text)


def work_of_a_page(path, agent, *, before=None):
    """Return how many steps of its machine SQLite takes for a page, in tens."""
    steps = itertools.count()
    with closing(sqlite3.connect(path)) as conn:
        conn.set_progress_handler(lambda: next(steps) < 0, 10)
        page = read_last(conn, "s1", agent, kinds=TALK, limit=200, before=before)
    assert len(page) == 200
    return next(steps)


async def test_a_page_of_a_long_history_takes_no_longer_than_of_a_short_one(tmp_path):
    work = {}
    for length in (400, 20_000):
        path = tmp_path / f"{length}.db"
        async with await SqliteStore.open(path) as store:
            agent = await spawned(Steps(), store)
            for begin in range(0, length, 1000):
                end = min(length, begin + 1000)
                await store.append([said(agent, f"{number}") for number in range(begin, end)])
            for _ in range(length // 400):  # what others say later costs nothing either
                await store.append([said("another", "aside")] * 400)
            page = await read_history(store, "s1", agent, "full", before=None, limit=200)
            assert [getattr(entry, "text", "") for entry in page] == [
                f"{number}" for number in range(length - 200, length)
            ]
            work[length] = work_of_a_page(path, agent)
            assert work_of_a_page(path, agent, before=page[0].seq) <= 1.2 * work[length]
    assert work[20_000] <= 1.2 * work[400], work


@pytest.mark.parametrize("kind", ["file", "memory"])
async def test_pages_of_every_size_are_the_whole(tmp_path, kind):
    async with (
        await SqliteStore.open(tmp_path / "ledger.db") if kind == "file" else MemoryStore()
    ) as store:
        agent = await spawned(Steps(), store)
        events = []
        for number in range(7):
            thinking = f"hm {number}" if number % 2 else None
            fields = {"turn": "t", "role": "assistant", "text": f"{number}", "thinking": thinking}
            events.append(event("message_completed", agent, **fields))
            call = f"c{number % 3}"  # ids come again
            begun = {"call": call, "tool": f"T{number}", "arguments": {}}
            events.append(event("tool_call_started", agent, **begun))
            events.append(event("notice", agent, level="info", text="x"))
            events.append(event("tool_call_finished", agent, call=call, status="completed"))
        await store.append(events)
        whole = await read_history(store, "s1", agent, "full", before=None, limit=10_000)
        tools = [entry.tool for entry in whole if isinstance(entry, ResultEntry)]
        assert tools == [f"T{number}" for number in range(7)]
        for detail in ("full", "summary"):
            all_of_it = await read_history(store, "s1", agent, detail, before=None, limit=10_000)
            for limit in range(1, 9):
                pages: list[Any] = []
                before = None
                while page := await read_history(
                    store, "s1", agent, detail, before=before, limit=limit
                ):
                    assert len(page) <= max(limit, 2)
                    pages, before = [*page, *pages], page[0].seq
                assert pages == all_of_it, (detail, limit)


async def test_the_history_of_an_agent_of_an_earlier_run_is_read_from_the_ledger(opened):
    async with opened() as first:

        async def master(agent):
            await agent.say("the first run says this")
            await agent.complete()

        await first.run(master=master)
        store = await SqliteStore.open(first.ledger.path)
        async with store:
            before = [row.descriptor.name for row in await store.agents(SESSION)]
    assert before == ["master"]
    async with local_scene(first.workspace.parent) as scene:
        entries = await scene.app.agents.history("master")
        assert "the first run says this" in [getattr(entry, "text", "") for entry in entries]


async def test_a_picture_has_what_a_turn_says_calls_and_has_not_read(tmp_path):
    async with local_scene(tmp_path) as scene:
        await scene.app.runs.start("count", mode=PermissionMode.PLAN)
        await scene.say("first")
        await scene.begin_to_say(PIECE)
        await scene.app.agents.prompt("master", "hurry")
        await scene.ask("which?")
        view = await scene.app.view()
        [root] = view.tree.agents
        assert (root.mode, [prompt.text for prompt in root.prompts]) == ("plan", ["hurry"])
        [tool] = root.open_tools
        assert (tool.tool, tool.since > 0) == ("ask_user", True)
        [turn] = view.turns
        assert (turn.agent, turn.n, turn.message) == (root.id, 1, 2)
        assert (turn.at, turn.unwritten) == (len(turn.text), ())
        assert turn.text
        assert PIECE.startswith(turn.text)
        [request] = view.requests
        assert (request.question, request.name) == ("which?", "master")
        await scene.app.agents.kill("master")


async def test_a_message_that_is_whole_but_not_committed_is_in_the_picture(opened):
    async with opened() as team:
        app = LocalApp(team.engine, RunOptions(), team.store, SESSION)
        views = []

        async def master(agent):
            await agent.say("one")
            journal = team.engine.journal
            picture = team.store.picture

            async def late(session):
                """Say another message while the ledger is read."""
                seen = await picture(session)
                await agent.say("two")
                await journal.flush()
                return seen

            team.store.picture = late
            views.append(await app.view())
            team.store.picture = picture
            views.append(await app.view())
            await agent.complete()

        await team.run(master=master)
        [[before], [after]] = [view.turns for view in views]
        assert before.unwritten == (UnwrittenMessage(message=2, text="two", thinking=""),)
        assert (before.message, after.message, after.unwritten) == (3, 3, ())
        async with aclosing(cast("Any", app.events(after=views[0].seq))) as events:
            assert (await anext(events)).data["text"] == "two"


async def test_a_picture_of_a_run_that_was_cut_off_has_nothing_that_runs_or_waits(opened):
    asked: list[Event] = []

    async def dies():
        asked.append(await team.seen("question_asked", question="which?"))
        await die(team)

    async def master(agent):
        await agent.say("one")
        await asyncio.gather(agent.call("ask_user", question="which?"), dies())

    async with opened(check=False, interactive=True) as team:
        await run_to_death(team, master=master)
    async with opened(check=False, interactive=True) as again:
        app = LocalApp(again.engine, RunOptions(), again.store, SESSION)
        view = await app.view()
        assert (list(view.requests), view.turns) == (await app.requests.open(), ())
        [node] = view.tree.agents
        assert (node.state, node.open_tools) == ("interrupted", ())
        assert view.run is not None
        assert view.run.status == "interrupted"
        assert await app.requests.answer(asked[0].data["request"], Answer(text="this one")) is False


async def test_a_picture_of_a_turn_that_goes_on_counts_what_it_said_before(opened):
    pictures: list[Any] = []

    async def cut_off(agent):
        await agent.say("one")
        await agent.say("two")
        await die(team)

    async def master(agent):
        app = LocalApp(again.engine, RunOptions(), again.store, SESSION)
        pictures.append(await app.view())
        await agent.say("three")
        pictures.append(await app.view())
        await agent.complete()

    async with opened(check=False) as team:
        await run_to_death(team, master=cut_off)
    async with opened() as again:
        await go_on(again, master=master)
    [[before], [after]] = [picture.turns for picture in pictures]
    assert (before.n, before.message, after.message) == (1, 3, 4)
    numbers = [event.get("message") for event in again.ledger.events("message_completed")]
    assert [number for number in numbers if number is not None] == [1, 2, 3]


async def test_a_session_that_was_closed_begins_nothing_and_has_nothing_more_to_read(tmp_path):
    async def read():
        return [event.seq async for event in app.events()]

    async with asyncio.timeout(control_peers.DEADLINE):
        async with local_scene(tmp_path) as scene:
            app = scene.app
            run = await app.runs.start("count")
        assert (await run.result()).status == "interrupted"
        assert await read() == []
        for begin in (app.runs.start, app.runs.follow_up):
            with pytest.raises(ControlError) as closed:
                await begin("count")
            assert closed.value.code == "session_closed"


async def test_who_begins_a_run_is_told_that_the_session_is_closed_and_not_cancelled(tmp_path):
    asked = asyncio.Event()

    async def never(*_, **__):
        asked.set()
        await asyncio.Event().wait()

    async with asyncio.timeout(control_peers.DEADLINE):
        async with local_scene(tmp_path) as scene:
            vars(scene.team.engine)["run"] = never
            beginning = asyncio.ensure_future(scene.app.runs.start("count"))
            await asked.wait()
        await asyncio.wait({beginning})
    told = None if beginning.cancelled() else beginning.exception()
    assert isinstance(told, ControlError)
    assert told.code == "session_closed"


@pytest.mark.parametrize("scene_of", [local_scene, remote_scene])
async def test_what_no_ledger_can_keep_is_refused_and_leaves_what_it_was_for_as_it_is(
    tmp_path, scene_of
):
    half = "\ud800"
    async with asyncio.timeout(control_peers.DEADLINE), scene_of(tmp_path) as scene:
        app = scene.app
        with pytest.raises(PrsmError):
            await app.runs.start(half)
        run = await app.runs.start("count")
        await scene.say("here")
        with pytest.raises(PrsmError):
            await app.agents.prompt("master", half)
        with pytest.raises(PrsmError):
            await app.agents.set_model("master", f"script/{half}")
        assert (await app.agents.tree()).agents[0].next_model is None
        await scene.ask("which?")
        [request] = [row.request for row in await app.requests.open()]
        for answer in (Answer(text=half), Answer(choices=(half,))):
            with pytest.raises(PrsmError):
                await app.requests.answer(request, answer)
        assert await app.requests.answer(request, Answer(text="this one")) is True
        assert (await app.requests.outcome(request)).answer.text == "this one"
        await scene.finish("counted")
        assert (await run.result()).status == "completed"
        with pytest.raises(PrsmError):
            await app.runs.follow_up(half)
        again = await app.runs.follow_up("count on")
        await scene.say("still here")
        assert (await app.runs.interrupt(), (await again.result()).status) == (True, "interrupted")


async def test_an_answer_from_a_place_of_no_unicode_name_is_taken(tmp_path):
    async with asyncio.timeout(control_peers.DEADLINE), local_scene(tmp_path) as scene:
        await scene.app.runs.start("count")
        await scene.ask("which?")
        [request] = [row.request for row in await scene.app.requests.open()]
        assert (
            await scene.app.requests.answer(request, Answer(text="this"), via="tty\udcff") is True
        )
        [told] = scene.team.ledger.events("question_answered")
        assert told["via"] == "tty\N{REPLACEMENT CHARACTER}"


async def test_interrupting_kills_the_whole_tree_and_the_engine_stays_open(opened):
    async with opened() as team:
        app = LocalApp(team.engine, RunOptions(provider="script"), team.store, SESSION)

        async def master(agent):
            await agent.spawn(name="a")
            await agent.hang()

        async def a(agent):
            await agent.hang()

        team.provider.behaviours.update(master=master, a=a)
        run = await app.runs.start("x")
        await team.seen("turn_started", "a")
        ends = await asyncio.gather(app.runs.interrupt(), app.runs.interrupt())
        assert ends[0] is True
        assert (await run.result()).status == "interrupted"
        [end] = team.ledger.events("run_finished")
        assert end["status"] == "interrupted"
        assert {team[name].state.value for name in ("master", "a")} == {"killed"}
        team.provider.behaviours["master"] = lambda agent: agent.complete(agent.text)
        again = await app.runs.follow_up("go on")
        result = await again.result()
        assert (result.status, result.summary) == ("completed", "go on")


async def test_a_run_that_ends_by_itself_meanwhile_keeps_its_end(opened):
    async with opened() as team:
        app = LocalApp(team.engine, RunOptions(provider="script"), team.store, SESSION)
        asked = []

        async def master(agent):
            asked.append(team.engine.start_soon(app.runs.interrupt(), name="interrupt"))
            await agent.complete("done")

        team.provider.behaviours["master"] = master
        run = await app.runs.start("x")
        result = await run.result()
        await asyncio.wait(asked)
        assert result.status in {"completed", "interrupted"}
        [end] = team.ledger.events("run_finished")
        assert end["status"] == result.status


async def test_a_run_whose_master_cannot_be_written_has_not_begun(opened):
    async with opened() as team:
        app = LocalApp(team.engine, RunOptions(provider="script"), team.store, SESSION)

        async def refuse(*_):
            raise StoreError("no room for a row", code="unfit")

        team.engine.manager.admit, admit = refuse, team.engine.manager.admit
        with pytest.raises(StoreError, match="no room"):
            await app.runs.start("x")
        assert await app.runs.interrupt() is False
        assert team.ledger.events() == []
        team.engine.manager.admit = admit
        again = await app.runs.start("y")
        assert (await again.result()).status == "completed"


async def test_effort_and_servers_of_a_run_are_its_masters(opened, tmp_path):
    async with opened() as team:
        app = LocalApp(team.engine, RunOptions(provider="script"), team.store, SESSION)
        server = McpServer(command=server_program(tmp_path, "search"))
        run = await app.runs.start("x", effort="high", mcp_servers={"find": server})
        assert (await run.result()).status == "completed"
        [request] = team.provider.requests["master"]
        assert request.reasoning_effort == "high"
        assert request.mcp_servers["find"] == server


def held(team):
    """Return what readers of a session hold: tasks, files, places at the feed and the store."""
    files = len(list(Path("/proc/self/fd").iterdir()))
    return (
        len(asyncio.all_tasks()),
        files,
        len(team.engine.feed._readers),
        len(threading.enumerate()),
    )


async def settled(team):
    """Return what is held once what was left has had its time to go."""
    before, now = None, held(team)
    while before != now:
        for _ in range(200):
            await asyncio.sleep(0)
        before, now = now, held(team)
    return now


def no_more_is_held(now, before):
    return all(held <= earlier for held, earlier in zip(now, before, strict=True))


async def come_and_go(app, rounds):
    """Look at a session and follow it as two frontends at a time."""
    follow = cast("Any", app.events)
    for _ in range(rounds):
        seen = (await app.view()).seq
        async with aclosing(follow()) as one, aclosing(follow(after=seen - 1)) as other:
            assert ((await anext(one)).seq, (await anext(other)).seq) == (1, seen)


@pytest.mark.requirement("D3")
async def test_two_frontends_come_and_go_two_hundred_times_and_leave_nothing(opened):
    async with opened() as team:
        app = LocalApp(team.engine, RunOptions(provider="script"), team.store, SESSION)
        await (await app.runs.start("x")).result()
        await come_and_go(app, 2)  # what is opened once stays
        before = await settled(team)
        await come_and_go(app, 200)
        assert no_more_is_held(await settled(team), before)


async def test_frontends_at_the_socket_come_and_go_two_hundred_times_and_leave_nothing(tmp_path):
    async with local_scene(tmp_path / "owner") as scene:
        state = tmp_path / "state"
        async with serving(state, scene.app):
            await scene.app.runs.start("x")
            await scene.say("here")
            before = await settled(scene.team)
            for _ in range(100):  # of two each
                async with (
                    open_remote(state, control_peers.SESSION) as one,
                    aclosing(one.events()) as left,
                    aclosing(one.events()) as right,
                ):
                    assert (await anext(left)).seq == (await anext(right)).seq == 1
            assert no_more_is_held(await settled(scene.team), before)


async def test_a_word_becomes_paths_of_the_workspace_alone(tmp_path):
    workspace = tmp_path / "w"
    (workspace / "src").mkdir(parents=True)
    (workspace / "src" / "main.py").write_text("")
    (workspace / "setup.py").write_text("")
    (workspace / ".hidden").write_text("")
    (tmp_path / "secret.txt").write_text("")
    (workspace / "out").symlink_to(tmp_path)

    async def words(text):
        return [row.text for row in await complete_word(text, str(workspace), ["w1", "w2"])]

    assert await words("look at @s") == ["@src/", "@setup.py"]
    assert await words("@src/m") == ["@src/main.py"]
    assert await words("@.h") == ["@.hidden"]
    assert await words("@") == ["@out/", "@src/", "@setup.py"]
    for outside in ("@../s", "@out/s", "@/etc/pass", "@nowhere/x", "@src/../../s"):
        assert await words(outside) == []
    assert await words("tell w") == ["w1", "w2"]
    assert await words("tell ") == await words("") == []
