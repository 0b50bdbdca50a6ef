"""The applications that there are, each with a master that does what a test says."""

import asyncio
from contextlib import asynccontextmanager
from typing import Any

from prsm_testing import AppScene, ScriptedApp

from prsm_core.engine.control.remote import open_remote
from prsm_core.engine.door.local import LocalApp
from prsm_core.interfaces.frontend import RunOptions
from prsm_core.interfaces.provider import ProviderCapabilities
from tests.engine import control_peers
from tests.engine.control_peers import serving
from tests.engine.harness import SESSION, open_team

SEES = ProviderCapabilities(enforcement="pre_tool", images=True)


class EngineScene(AppScene):
    """Any application over a team whose master obeys orders."""

    def __init__(self, app, team):
        self.app = app
        self.team = team
        self.orders: asyncio.Queue[Any] = asyncio.Queue()
        for name in ("master", "m1", "m2"):
            team.provider.behaviours[name] = self._obey

    async def _obey(self, agent):
        while True:
            order, text, done, *options = await self.orders.get()
            if order == "finish":
                done.set_result(None)
                if (await agent.outcome("task_complete", {"summary": text})).is_error:
                    await agent.call("wait_for_message")  # a prompt that it has not read
                    await agent.complete(text)
                return
            if order == "ask":
                done.set_result(None)
                offered = {"options": options} if options else {}
                await agent.call("ask_user", question=text, **offered)
            else:
                await (agent.say if order == "say" else agent.begin_to_say)(text)
                done.set_result(None)

    async def _order(self, order, text, *options):
        done = asyncio.get_running_loop().create_future()
        self.orders.put_nowait((order, text, done, *options))
        await done

    async def say(self, text):
        await self._order("say", text)
        await self.team.engine.journal.flush()

    async def begin_to_say(self, text):
        await self._order("begin", text)

    async def ask(self, question, *options):
        await self._order("ask", question, *options)
        await self.team.seen("question_asked", question=question)

    async def finish(self, summary):
        await self._order("finish", summary)


class DoubleScene(AppScene):
    """The double, whose events are what its test says."""

    app: ScriptedApp

    def __init__(self, app):
        self.app = app
        self.at = 0  # characters of the message that has begun
        self.message = 1

    def _begun(self):
        if "m" not in self.app._names():
            self.app.spawn()
            change: Any = {"from": "starting", "to": "running"}
            self.app.say("agent_state_changed", "m", **change)

    async def say(self, text):
        self._begun()
        whole: dict[str, Any] = {"turn": "t", "message": self.message}
        self.app.say("message_completed", "m", **whole, role="assistant", text=text)
        self.at, self.message = 0, self.message + 1

    async def begin_to_say(self, text):
        piece: dict[str, Any] = {"turn": "t", "message": self.message, "at": self.at}
        self.app.say("text_delta", "m", live=True, text=text, **piece)
        self.at += len(text)

    async def ask(self, question, *options):
        asked: dict[str, Any] = {"request": "r1", "question": question, "options": list(options)}
        self.app.say("question_asked", "m", **asked)

    async def finish(self, summary):
        self.app.finish()


@asynccontextmanager
async def double_scene(tmp_path):
    yield DoubleScene(ScriptedApp(RunOptions(workspace=str(tmp_path))))


@asynccontextmanager
async def local_scene(tmp_path, **fields):
    tmp_path.mkdir(exist_ok=True)
    fields.setdefault("capabilities", SEES)
    async with open_team(tmp_path, interactive=True, **fields) as team:
        options = RunOptions(workspace=str(team.workspace), provider="script")
        app = LocalApp(team.engine, options, team.store, SESSION)
        try:
            yield EngineScene(app, team)
        finally:
            await app.aclose()


@asynccontextmanager
async def remote_scene(tmp_path, **fields):
    async with local_scene(tmp_path / "owner", **fields) as scene:
        state = tmp_path / "owner" / "state"  # as the engine's
        async with serving(state, scene.app), open_remote(state, control_peers.SESSION) as app:
            yield EngineScene(app, scene.team)
