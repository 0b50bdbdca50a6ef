"""Sessions for the tests: events by hand, and a real engine whose agents follow a scenario."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

from msgspec.structs import replace
from prsm_tui.hub_frontend import compose
from prsm_tui.model.session import Session
from textual import events

from prsm_core.app import open_app
from prsm_core.config import resolve_paths
from prsm_core.config.schema import Settings
from prsm_core.domain.events import Event
from prsm_core.door import AgentNode, AgentTree, BudgetReport, Usage, View
from prsm_core.interfaces.frontend import FrontendSpec, RunOptions
from prsm_core.plugins import PluginManager
from tests.builtins import DEMO, WITHOUT_DEMO

EMPTY = View(
    seq=0,
    session="session-1",
    mode="default",
    run=None,
    tree=AgentTree(session="session-1", run=None, is_live=True, spent=Usage(), agents=()),
    requests=(),
    budget=BudgetReport(run={}, spent=""),
    turns=(),
)


def viewed(seq: int, *agents: str, **fields: Any) -> View:
    """Return a view of agents that run, each called by its id."""
    known: dict[str, Any] = {"role": "worker", "provider": "echo", "model": "m", "depth": 0}
    known |= {"run": "r1", "parent": None, **fields.pop("node", {})}
    nodes = [AgentNode(**{"id": id_, "name": id_, "state": "running", **known}) for id_ in agents]
    return replace(EMPTY, seq=seq, tree=replace(EMPTY.tree, agents=tuple(nodes)), **fields)


class Told:
    """Makes events of one session, numbered as they are committed."""

    def __init__(self, session=None):
        self.model = session or Session.of_view(EMPTY)
        self.events = []
        self._seq = count(1)

    def say(self, kind, agent=None, /, *, live=False, run="run-1", **data):
        seq = None if live else next(self._seq)
        event = Event(
            type=kind, session="session-1", run=run, ts=100.0, agent=agent, data=data, seq=seq
        )
        self.events.append(event)
        self.model.apply(event)
        return event

    def spawn(self, agent, name, parent=None, **more):
        self.say(
            "agent_spawned",
            agent,
            name=name,
            parent=parent,
            role="worker",
            provider="echo",
            **{"model": "m", "depth": 0 if parent is None else 1, "prompt": "do it", **more},
        )

    def piece(self, text, at, *, kind="text_delta", turn="t1", message=1, agent="a"):
        self.say(kind, agent, live=True, turn=turn, message=message, at=at, text=text)


def texts(blocks):
    """Return what blocks say, with their kind."""
    return [(type(block).__name__, getattr(block, "text", "")) for block in blocks]


@asynccontextmanager
async def engine(folder, scenario, task="[[lane:master]] go", files=None, resumes=None, **sections):
    """Open the real application over agents that follow a scenario; `files` are in its folder.

    `resumes` is a session whose run goes on.
    """
    workspace = folder / "workspace"
    if resumes is not None:
        task = None
    elif files is None:
        workspace.mkdir(parents=True)
    else:
        shutil.copytree(files, workspace)
    paths = resolve_paths(workspace, {"PRSM_HOME": str(folder / "home")})
    plugins = PluginManager.load(environ={}, builtins=[*WITHOUT_DEMO, DEMO], entry_points=[])
    settings = Settings.of({**sections, "providers": {"script": {"scenario": scenario}}})
    options = RunOptions(
        workspace=str(workspace),
        provider="script",
        task=task,
        session=resumes,
        resumes=resumes is not None,
    )
    frontend = FrontendSpec(name="t", summary="", interactive=True, priority=0, factory="")
    async with open_app(options, settings, plugins, paths=paths, frontend=frontend) as app:
        yield app


class Eyes:
    """A screen of a session, with a person's hands and eyes."""

    def __init__(self, pilot):
        self.pilot = pilot
        self.tui = pilot.app
        self.session = pilot.app.session

    @property
    def text(self):
        """What is to be seen now."""
        strips = self.tui.screen._compositor.render_strips()
        return "\n".join(strip.text.rstrip() for strip in strips)

    async def press(self, *keys):
        await self.pilot.press(*keys)

    async def type(self, text):
        """Press the keys of a text, as fast as a terminal sends them."""
        driver = self.tui._driver
        for letter in text:
            character = "\r" if letter == "\n" else letter
            driver.process_message(events.Key(_NAMES.get(letter, letter), character))
        await self.pilot.pause()

    async def sees(self, *texts):
        await self.until(lambda: all(text in self.text for text in texts), *texts)

    async def until(self, is_so, *what):
        try:
            async with asyncio.timeout(SEEN_SECONDS):
                while not is_so():
                    await self.pilot.pause(0.01)
                await self._settle()
        except TimeoutError:
            raise AssertionError(f"not seen: {what}, but\n{self.text}") from None

    async def _settle(self):
        """Have what has begun to change put in its place.

        A widget that changes its text asks its screen to arrange all of them, which tells each of
        its new size: until then the new text stands among rows in their old places.
        """
        for _ in range(_ARRANGING):
            await self.pilot.pause(0)


SEEN_SECONDS = 30.0
_ARRANGING = 3  # rounds of messages: from the widget to the screen, and to all widgets
_NAMES = {" ": "space", "\n": "enter", "/": "slash", "@": "at", "?": "question_mark"}


@asynccontextmanager
async def watching(app, size=(100, 30), **options):
    """Open the screen of a session; leaving closes it."""
    tui, beside = await compose(app, **options)
    async with asyncio.TaskGroup() as group:
        helpers = [group.create_task(work()) for work in beside]
        async with tui.run_test(size=size) as pilot:
            yield Eyes(pilot)
        for helper in helpers:
            helper.cancel()
