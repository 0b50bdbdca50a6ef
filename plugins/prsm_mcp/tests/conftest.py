"""A bridge with an open endpoint, and the application that has one."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import pytest
from prsm_mcp.bridge import Bridge

from plugins.prsm_mcp.tests.peers import DEADLINE, WaitingHost
from prsm_core.app import open_app
from prsm_core.config import resolve_paths
from prsm_core.config.schema import Settings
from prsm_core.interfaces.frontend import FrontendSpec, RunOptions
from prsm_core.kit.clocks import SystemClock
from prsm_core.plugins import PluginManager
from tests import scripted_plugin
from tests.builtins import WITHOUT_DEMO

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
async def bridge(tmp_path):
    async with asyncio.timeout(DEADLINE), Bridge(tmp_path / "b" / "s", SystemClock()) as bridge:
        yield bridge


@pytest.fixture
async def host():
    return WaitingHost()


@pytest.fixture
async def endpoint(bridge, host):
    """The endpoint of an agent whose tools are those of `host`."""
    async with bridge.endpoint(host, "a1") as endpoint:
        yield endpoint


class Team:
    """Runs a task on the whole application, each agent a behaviour by its name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.app: Any = None

    async def run(self, **behaviours):
        """Run agents that are behaviours; return what `run_task` does."""
        scripted_plugin.behaviours.clear()
        scripted_plugin.failures.clear()
        scripted_plugin.behaviours.update(behaviours)
        ended = await self.run_task("do it", provider="script")
        for failure in scripted_plugin.failures:
            raise failure
        return ended

    async def run_task(self, task, provider, *, settings=None, meanwhile=None):
        """Run a task to its end; return the run's result and the master's node in the tree."""
        async with asyncio.timeout(DEADLINE), self._opened(provider, settings or {}) as self.app:
            run = await self.app.runs.start(task)
            if meanwhile is not None:
                await meanwhile(self.app)
            result = await run.result()
            tree = await self.app.agents.tree()
        return result, tree.agents[0]

    async def seen(self, kind, agent=None, **fields):
        """Wait for a committed event, of the agent of this name if one is given."""
        ids = {}
        async with aclosing(self.app.events()) as events:
            async for event in events:
                if event.type == "agent_spawned":
                    ids[event.data["name"]] = event.agent
                if event.type != kind or (agent is not None and event.agent != ids.get(agent)):
                    continue
                if all(event.data[key] == value for key, value in fields.items()):
                    return event
        raise AssertionError(kind)

    def _opened(self, provider, settings):
        ours = [("script", "tests.scripted_plugin"), ("cli", "plugins.prsm_mcp.tests.cli_plugin")]
        plugins = PluginManager.load(environ={}, builtins=[*WITHOUT_DEMO, *ours], entry_points=[])
        workspace = self.folder / "workspace"
        workspace.mkdir()
        return open_app(
            RunOptions(workspace=str(workspace), provider=provider),
            Settings.of({"providers": {provider: settings}}),
            plugins,
            paths=resolve_paths(workspace, {"PRSM_HOME": str(self.folder / "home")}),
            frontend=FrontendSpec(name="t", summary="", interactive=False, priority=0, factory=""),
        )


@pytest.fixture
def team(tmp_path):
    return Team(tmp_path)
