"""Many sessions in one process: each its workspace's own, none touched by another."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from prsm_core.cli.errands import CommandErrands
from prsm_core.cli.launch import Launch
from prsm_core.cli.sessions.keepers import Keepers
from prsm_core.config import ledger_path, resolve_paths
from prsm_core.config.schema import Settings
from prsm_core.domain.agents import PermissionMode
from prsm_core.domain.permissions import Answer
from prsm_core.errors import ConfigError, ControlError, SessionOwnedError, StoreError
from prsm_core.hub import open_hub
from prsm_core.interfaces.frontend import FrontendSpec, RunOptions
from prsm_core.plugins import PluginManager
from tests import scripted_plugin
from tests.builtins import WITHOUT_DEMO
from tests.engine.harness import DEADLINE


class Place:
    """Two workspaces, and what the master of each does, by its task."""

    def __init__(self, folder, monkeypatch):
        monkeypatch.setenv("PRSM_HOME", str(folder / "home"))
        self.environ = {"PRSM_HOME": str(folder / "home")}
        self.one, self.two = str(folder / "one"), str(folder / "two")
        (folder / "one").mkdir()
        (folder / "two").mkdir()
        self.loaded = []
        self.plugins = PluginManager.load(
            environ={},
            builtins=[*WITHOUT_DEMO, ("script", "tests.scripted_plugin")],
            entry_points=[],
        )

    def load(self, workspace):
        """Load what belongs to a workspace, as the command line does."""
        self.loaded.append(workspace)
        if workspace not in {self.one, self.two}:
            raise ConfigError(f"{workspace} is no folder")
        agents = 1 if workspace == self.one else 2
        return SimpleNamespace(
            paths=resolve_paths(Path(workspace), self.environ),
            settings=Settings.of({"engine": {"max_concurrent_agents": agents}}),
            plugins=self.plugins,
            trusted=False,
            snapshot=None,
            keeps_rules=False,
        )

    def ledgers(self):
        return list(Path(self.environ["PRSM_HOME"]).rglob("ledger.db"))

    def options(self, workspace, **others):
        return RunOptions(workspace=workspace, provider="script", **others)

    def given(self, spec):
        return {"frontend": spec, "errands": CommandErrands(Launch(), (), Keepers)}

    @asynccontextmanager
    async def hub(self):
        spec = FrontendSpec(
            name="test", summary="", interactive=True, priority=0, factory="", scope="hub"
        )
        async with asyncio.timeout(DEADLINE):
            async with open_hub(self.options(self.one), self.load, **self.given(spec)) as hub:
                yield hub


@pytest.fixture
def place(tmp_path, monkeypatch):
    scripted_plugin.behaviours.clear()
    scripted_plugin.failures.clear()
    yield Place(tmp_path, monkeypatch)
    for failure in scripted_plugin.failures:
        raise failure


@pytest.fixture
def asks(place):
    """Masters ask the person for a colour and say it; return what they heard."""

    async def master(agent):
        said = await agent.call("ask_user", question="Which?", options=["red", "blue"])
        await agent.complete(said["choices"][0])

    scripted_plugin.behaviours.update(master=master, m1=master)  # m1: a session's second master


async def question(app, run=None):
    """Return the id of the question that a session, or one run of it, waits with."""
    async for event in app.events():
        if event.type == "question_asked" and run in {None, event.run}:
            return event.data["request"]
    raise AssertionError


async def run_once(app, choice):
    run = await app.runs.start("choose")
    await app.requests.answer(await question(app, run.run_id), Answer(choices=(choice,)))
    return await run.result()


@pytest.mark.requirement("D3")
async def test_two_sessions_run_at_once_each_in_its_workspace(place, asks):
    async with (
        place.hub() as hub,
        hub.open(place.options(place.one)) as first,
        hub.open(place.options(place.two)) as second,
    ):
        runs = [await first.runs.start("choose"), await second.runs.start("choose")]
        for app, choice in ((second, "blue"), (first, "red")):
            await app.requests.answer(await question(app), Answer(choices=(choice,)))
        ended = [(await run.result()).summary for run in runs]
        assert ended == ["red", "blue"]
        assert [run.session for run in runs] == [first.options.session, second.options.session]
        rows = {row.session: row for row in await hub.sessions()}
        assert [rows[run.session].workspace for run in runs] == [place.one, place.two]
        [row] = await hub.sessions(place.two)
        assert (row.session, row.status, row.task) == (
            second.options.session,
            "completed",
            "choose",
        )
    assert place.loaded == [place.one, place.two]


async def test_what_waits_is_told_of_all_sessions(place, asks):
    async with (
        place.hub() as hub,
        hub.open(place.options(place.one)) as first,
        hub.open(place.options(place.two)) as second,
    ):
        await first.runs.start("choose")
        request = await question(first)
        await second.runs.start("idle")
        rows = {row.session: row for row in await hub.sessions()}
        [waits] = rows[first.options.session].waits
        assert (waits.request, waits.name, waits.question) == (
            request,
            "master",
            "Which?",
        )
        session = first.options.session
    [row] = [row for row in await hub.sessions() if row.session == session]
    assert (row.status, row.pid, tuple(row.waits)) == ("interrupted", None, ())


async def test_a_frontend_that_raises_has_its_session_closed_and_the_others_go_on(place, asks):
    async with place.hub() as hub, hub.open(place.options(place.two)) as other:

        async def show():
            async with hub.open(place.options(place.one)) as app:
                await app.runs.start("choose")
                await question(app)
                raise RuntimeError(app.options.session)

        with pytest.raises(RuntimeError) as mine:
            await show()
        session = str(mine.value)
        [row] = await hub.sessions(place.one)
        assert (row.session, row.status, row.pid) == (session, "interrupted", None)
        assert (await run_once(other, "blue")).summary == "blue"


async def test_a_session_that_breaks_is_told_to_its_own_frontend_alone(place, asks, monkeypatch):
    async def full(step):
        raise StoreError("the disk is full")

    async with place.hub() as hub, hub.open(place.options(place.two)) as other:

        async def show():
            async with hub.open(place.options(place.one)) as app:
                run = await app.runs.start("choose")
                request = await question(app)
                monkeypatch.setattr(app._store, "commit", full)
                await app.requests.answer(request, Answer(choices=("red",)))
                return await run.result()

        with pytest.raises(StoreError, match="the disk is full"):
            await show()
        scripted_plugin.failures.clear()  # which its master met, too
        assert (await run_once(other, "red")).summary == "red"


async def test_a_workspace_that_cannot_be_opened_is_refused_and_leaves_nothing(place, asks):
    async with place.hub() as hub:
        with pytest.raises(ConfigError, match="no folder"):
            async with hub.open(place.options("/nowhere")):
                raise AssertionError
        with pytest.raises(StoreError, match="no session"):
            async with hub.open(place.options(place.one, session="01AAAA")):
                raise AssertionError
        with pytest.raises(ControlError) as refused:
            async with hub.attach("01AAAA"):
                raise AssertionError
        assert refused.value.code == "no_owner"
        assert await hub.sessions() == []


async def test_a_session_has_one_owner_and_is_reached_by_others(place, asks):
    async with place.hub() as hub, hub.open(place.options(place.one)) as app:
        run = await app.runs.start("choose")
        session = run.session
        with pytest.raises(SessionOwnedError):
            async with hub.open(place.options(place.one, session=session)):
                raise AssertionError
        async with hub.attach(session) as same, place.hub() as stranger:
            assert same is app
            async with stranger.attach(session) as door:
                assert await door.requests.answer(await question(door), Answer(choices=("red",)))
        assert (await run.result()).summary == "red"
    async with place.hub() as later, later.open(place.options(place.one, session=session)) as app:
        assert (await run_once(app, "blue")).summary == "blue"
        [row] = await later.sessions()
        assert row.session == session


async def test_a_session_may_be_left_in_another_task_than_it_was_opened_in(place, asks):
    async with place.hub() as hub:
        stack = AsyncExitStack()

        async def open_it():
            return await stack.enter_async_context(hub.open(place.options(place.one)))

        async with asyncio.TaskGroup() as group:
            app = await group.create_task(open_it())
        assert (await run_once(app, "red")).summary == "red"
        async with asyncio.TaskGroup() as group:
            group.create_task(stack.aclose())
        with pytest.raises(ControlError):
            async with hub.attach(app.options.session):
                raise AssertionError


async def test_what_a_frontend_leaves_open_is_closed_with_the_hub(place, asks):
    before = asyncio.all_tasks()
    async with place.hub() as hub:
        opened = hub.open(place.options(place.one))
        app = await opened.__aenter__()
        await app.runs.start("choose")
        await question(app)
    [row] = await hub.sessions()
    assert (row.status, row.pid) == ("interrupted", None)
    await opened.__aexit__(None, None, None)  # which is too late, and harms nothing
    assert asyncio.all_tasks() == before


async def test_a_hub_that_is_closed_opens_nothing(place):
    async with place.hub() as hub:
        pass
    with pytest.raises(ControlError) as refused:
        async with hub.open(place.options(place.one)):
            raise AssertionError
    assert refused.value.code == "hub_closed"


async def test_a_ledger_that_cannot_be_read_is_left_out_and_told(place, asks, caplog):
    async with place.hub() as hub, hub.open(place.options(place.one)) as app:
        await run_once(app, "red")
        broken = ledger_path(resolve_paths(Path(place.two), place.environ), "broken")
        broken.parent.mkdir(parents=True)
        broken.write_text("no ledger")
        [row] = await hub.sessions()
        assert row.session == app.options.session
    assert str(broken) in caplog.text


async def test_a_ledger_that_cannot_be_read_hides_no_session_of_another(place, asks, tmp_path):
    async with place.hub() as hub:
        async with hub.open(place.options(place.one)) as app:
            await run_once(app, "red")
        session = app.options.session
        broken = ledger_path(resolve_paths(Path(place.two), place.environ), "0-is-the-first")
        broken.parent.mkdir(parents=True)
        broken.write_text("no ledger")
        assert (await hub.peek(session))[-1].kind == "tool_result"
        await hub.rename(session, "colours")
        assert (await hub.export(session, str(tmp_path / "colours.json"))).endswith(".json")
        forked = await hub.fork(session)
        names = {row.session: row.name for row in await hub.sessions(place.one)}
        assert (names[session], set(names)) == ("colours", {session, forked})
        with pytest.raises(StoreError) as unknown:
            await hub.peek("01NOWHERE")
    assert unknown.value.code == "unknown_session"
    assert str(broken) in (unknown.value.hint or "")


async def test_of_a_run_that_was_cut_off_nothing_waits_for_a_person(place, asks, tmp_path):
    async with place.hub() as hub:
        async with hub.open(place.options(place.one)) as app:
            run = await app.runs.start("choose")
            await question(app)
            [ledger] = place.ledgers()
            _copy_of_another_process(ledger, tmp_path / "copy.db")
        for left in ledger.parent.glob("ledger.db*"):
            left.unlink()
        (tmp_path / "copy.db").rename(ledger)  # as it was when its engine died
        async with hub.open(place.options(place.one, session=run.session)) as app:
            [row] = await hub.sessions()
            view, waiting = await app.view(), await app.requests.open()
            again = await app.runs.start("choose")
            asked = await question(app, again.run_id)
            [now] = await hub.sessions()
    assert (row.status, row.pid, list(row.waits)) == ("interrupted", os.getpid(), [])
    assert (view.run.status, view.requests, waiting) == ("interrupted", (), [])
    assert (now.status, [one.request for one in now.waits]) == ("running", [asked])


def _copy_of_another_process(ledger, path):
    with closing(sqlite3.connect(ledger)) as live, closing(sqlite3.connect(path)) as copy:
        live.backup(copy)
        copy.execute("UPDATE engines SET pid = 1")
        copy.commit()


async def test_a_mode_by_its_name_is_that_mode_and_another_opens_nothing(place, asks):
    async with place.hub() as hub:
        async with hub.open(place.options(place.one, mode="plan")) as app:
            assert (app.options.mode, (await app.view()).mode) == (PermissionMode.PLAN, "plan")
        wrong = place.options(place.one, mode="carefree", task="choose")
        with pytest.raises(ConfigError, match="no mode 'carefree'"):
            await hub.start(wrong)
        with pytest.raises(ConfigError, match="no mode 'carefree'"):
            async with hub.open(wrong):
                raise AssertionError
