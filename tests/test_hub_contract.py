"""One contract for every hub that a frontend may be given."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from contextlib import asynccontextmanager, closing

import pytest
from msgspec import to_builtins
from msgspec.structs import replace

pytest.register_assert_rewrite("prsm_testing.hub_rules")

from prsm_testing import HubContract, HubScene, ScriptedHub  # noqa: E402

from prsm_core.cli.errands import CommandErrands  # noqa: E402
from prsm_core.cli.launch import Launch  # noqa: E402
from prsm_core.cli.opening import Setups  # noqa: E402
from prsm_core.domain.agents import PermissionMode  # noqa: E402
from prsm_core.domain.permissions import Answer  # noqa: E402
from prsm_core.engine.processes.launcher import install_child_watcher  # noqa: E402
from prsm_core.errors import ControlError  # noqa: E402
from prsm_core.hub import open_hub  # noqa: E402
from prsm_core.interfaces.frontend import FrontendSpec, RunOptions  # noqa: E402


def asks(id_):
    return {"ask_user": {"id": id_, "question": "Which?", "options": ["red"]}}


IDLE_SECONDS = 3.0  # enough to attach in, on a busy machine
STEPS = (asks("x"), {"say": "done"}, asks("y"), {"say": "too"})


class ScriptedScene(HubScene):
    hub: ScriptedHub

    def __init__(self, workspace):
        self.workspace = workspace
        self.hub = ScriptedHub(RunOptions(workspace=workspace))

    def _app(self, session):
        return next(app for app in self.hub.apps if app.session == session)

    async def until_asked(self, session):
        app = self._app(session)
        app.spawn()
        app.say("message_completed", "m", turn="t", role="assistant", text="Which of them?")
        app.say("question_asked", "m", request="q", question="Which?", options=["red"])

    async def finish(self, session):
        app = self._app(session)
        await app.requests.answer("q", Answer(choices=("red",)))
        app.finish()
        await asyncio.sleep(0)

    async def idle(self, session):
        await self.hub.idle(session)


class LocalScene(HubScene):
    def __init__(self, hub, workspace):
        self.hub, self.workspace = hub, workspace

    async def until_asked(self, session):
        async with self.hub.attach(session) as app:
            async for event in app.events():
                if event.type == "question_asked" and await app.requests.open():
                    return

    async def finish(self, session):
        async with self.hub.attach(session) as app:
            [request] = await app.requests.open()
            assert await app.requests.answer(request.request, Answer(choices=("red",)))
            try:
                async for _ in app.events():
                    pass
            except ControlError:  # its owner has ended
                pass
        await self.idle(session)

    async def idle(self, session):
        while (await self._row(session)).pid is not None:
            pass  # each look is a wait for a file

    async def _row(self, session):
        return next(row for row in await self.hub.sessions() if row.session == session)


class TestScriptedHub(HubContract):
    @asynccontextmanager
    async def open_scene(self, tmp_path):
        workspace = tmp_path / "work"
        workspace.mkdir()
        scene = ScriptedScene(str(workspace))
        yield scene
        await scene.hub.aclose()


@pytest.mark.requirement("D3")
class TestLocalHub(HubContract):
    @pytest.fixture(autouse=True)
    def _home(self, tmp_path, monkeypatch):
        monkeypatch.setenv("PRSM_HOME", str(tmp_path / "home"))
        monkeypatch.setenv("PRSM_PLUGINS", "")
        install_child_watcher()

    @asynccontextmanager
    async def open_scene(self, tmp_path, **lanes):
        workspace, scenario = tmp_path / "work", tmp_path / "scenario.json"
        workspace.mkdir()
        lanes = {name: {"steps": steps} for name, steps in {"master": STEPS, **lanes}.items()}
        scenario.write_text(json.dumps({"lanes": lanes}))
        sets = (f"providers.script.scenario={scenario}",)
        setups = Setups(Launch(), sets)
        setup = setups.load(str(workspace))
        spec = FrontendSpec(
            name="test", summary="", interactive=True, priority=0, factory="", scope="hub"
        )
        options = RunOptions(workspace=str(setup.paths.workspace), provider="script")
        errands = CommandErrands(Launch(), sets, setups.keepers, idle_s=IDLE_SECONDS)
        with closing(errands):
            async with open_hub(options, setups.load, frontend=spec, errands=errands) as hub:
                yield LocalScene(hub, options.workspace)

    async def test_changes_are_decided_of_a_session_that_nobody_runs(self, tmp_path):
        edits = [{"edit": {"path": name, "content": "new\n"}} for name in "ab"]
        worker = {"name": "w1", "prompt": "work", "wait": True, "tools": ["Edit", "Write"]}
        spawns = {"call": {"id": "w", "tool": "spawn_child", "arguments": worker}}
        lanes = {"master": [spawns, *STEPS], "w1": [*edits, {"say": "done"}]}
        async with self.open_scene(tmp_path, **lanes) as scene:
            hub = scene.hub
            git = await asyncio.create_subprocess_exec("git", "init", "-q", cwd=scene.workspace)
            assert await git.wait() == 0
            options = replace(hub.options, task="edit", mode=PermissionMode.BYPASS)
            session = (await hub.start(options)).session
            await scene.until_asked(session)
            await scene.finish(session)
            _ = await hub.start(replace(options, task=None, session=session))
            async with hub.attach(session) as app:
                a, b = [one.change for one in await app.changes.list()]
                [kept] = await app.changes.accept([a])
                [undone] = await app.changes.reject([b])
                await app.changes.undo("act", undone.act)
                assert (kept.state, undone.state) == ("accepted", "rejected")
                states = [one.state for one in await app.changes.list()]
            assert states == ["accepted", "pending"]
            await scene.idle(session)

    async def test_what_a_look_tells_of_a_finished_run_is_what_its_door_told(self, tmp_path):
        edits = [{"edit": {"path": name, "content": "new\n"}} for name in "ab"]
        worker = {"name": "w1", "prompt": "work", "wait": True, "tools": ["Edit", "Write"]}
        spawns = {"call": {"id": "w", "tool": "spawn_child", "arguments": worker}}
        lanes = {"master": [spawns, *STEPS], "w1": [*edits, {"say": "done"}]}
        async with self.open_scene(tmp_path, **lanes) as scene:
            hub = scene.hub
            git = await asyncio.create_subprocess_exec("git", "init", "-q", cwd=scene.workspace)
            assert await git.wait() == 0
            async with hub.open(replace(hub.options, mode=PermissionMode.BYPASS)) as app:
                session = app.options.session
                run = await app.runs.start("edit")
                await scene.until_asked(session)
                [request] = await app.requests.open()
                assert await app.requests.answer(request.request, Answer(choices=("red",)))
                assert (await run.result()).status == "completed"
                _ = await app.changes.accept([(await app.changes.list())[0].change])
                live = await told_by(app)
            async with hub.look(session) as looked:
                for key, value in (await told_by(looked)).items():
                    assert value == live[key], key
                async with hub.open(replace(hub.options, session=session)) as app:
                    assert (await app.view()).seq == live["seq"], "nothing was held, or written"
            assert [one.state for one in live["changes"]] == ["accepted", "pending"]
            assert live["diffs"][0].endswith("+new\n")

    async def test_what_a_look_tells_of_a_run_that_was_cut_off_runs_and_waits_no_more(
        self, tmp_path
    ):
        async with self.open_scene(tmp_path) as scene:
            begun = await scene.hub.start(replace(scene.hub.options, task="ask"))
            await scene.until_asked(begun.session)
            os.kill(begun.pid, signal.SIGKILL)
            await scene.idle(begun.session)
            async with scene.hub.look(begun.session) as app:
                view, tree = await app.view(), await app.agents.tree()
                [request] = await app.requests.open()
            assert view.run.status == "interrupted"
            assert (view.turns, view.requests) == ((), ())
            for told in (view.tree, tree):
                assert [node.state for node in told.walk()] == ["interrupted"]
            assert request.kind == "question"


async def told_by(app):
    """Return all that a handle can be asked without an engine."""
    view, changes = await app.view(), await app.changes.list()
    details = [await app.changes.show(one.change) for one in changes]
    agents = [node.id for node in view.tree.walk()]
    asked = [event async for event in until(app.events(), view.seq)]
    requests = {event.data["request"] for event in asked if "request" in event.data}
    return {
        **to_builtins(view),
        "agents": await app.agents.tree(),
        "histories": [await app.agents.history(agent) for agent in agents],
        "events": asked,
        "open": await app.requests.open(),
        "outcomes": [await app.requests.outcome(one) for one in sorted(requests)],
        "changes": changes,
        "details": details,
        "diffs": [one.diff for one in details],
        "rationale": [await app.changes.rationale(name, 1) for name in "ab"],
        "worktrees": list(await app.changes.worktrees()),
        "snapshots": list(await app.snapshots.list()),
        "sessions": [replace(one, pid=None) for one in await app.sessions.list()],
    }


async def until(events, last):
    """Yield the events up to one."""
    async for event in events:
        yield event
        if event.seq == last:
            return
