"""The whole application with a tree of ACP agents, configured under a name of the user's own."""

from __future__ import annotations

import asyncio

import pytest
from prsm_testing.model_server import ModelServer
from prsm_testing.provider_scene import call

from plugins.prsm_acp.tests.fake_manifest import FAKE
from prsm_core.app import open_app, survey_providers
from prsm_core.config import resolve_paths
from prsm_core.config.schema import Settings
from prsm_core.domain.agents import PermissionMode
from prsm_core.interfaces.frontend import FrontendSpec, RunOptions
from prsm_core.plugins import PluginManager
from tests.builtins import WITHOUT_DEMO

DEADLINE = 60.0
DONE = {"say": "bye"}
SPAWN = call("spawn_child", "s", prompt="[[lane:w1]] Count.", name="w1", wait=True)


class Application:
    """Runs tasks with the provider `mine`, which is of the kind `acp`."""

    def __init__(self, folder):
        self.workspace = folder / "workspace"
        self.workspace.mkdir()
        self.home = folder / "agents"
        self.home.mkdir()
        self.paths = resolve_paths(self.workspace, {"PRSM_HOME": str(folder / "home")})
        self.plugins = PluginManager.load(
            environ={}, builtins=[*WITHOUT_DEMO, ("acp", "prsm_acp.plugin")], entry_points=[]
        )
        self.settings = Settings()

    def configure(self, base_url):
        env = {"FAKE_URL": base_url, "FAKE_HOME": str(self.home)}
        mine = {"kind": "acp", "command": list(FAKE), "env": env}
        self.settings = Settings.of({"providers": {"mine": mine}})

    async def run(self, mode=PermissionMode.DEFAULT):
        """Run the master's lane; return the run's result, the tree and what the agents said."""
        options = RunOptions(workspace=str(self.workspace), provider="mine", mode=mode)
        frontend = FrontendSpec(name="t", summary="", interactive=False, priority=0, factory="")
        async with (
            asyncio.timeout(DEADLINE),
            open_app(
                options, self.settings, self.plugins, paths=self.paths, frontend=frontend
            ) as app,
        ):
            run = await app.runs.start("[[lane:master]] Have it counted.")
            result = await run.result()
            tree = await app.agents.tree()
        return result, tree.agents[0]


@pytest.fixture
def application(tmp_path):
    return Application(tmp_path)


@pytest.mark.requirement("R27")
async def test_acp_agents_are_master_and_worker_of_one_tree(application):
    lanes = {
        "master": {
            "steps": [
                {"call": SPAWN},
                {"call": call("task_complete", "m", summary="${s.result.summary}, it says")},
                DONE,
            ]
        },
        "w1": {
            "steps": [
                {"shell": "echo hi > made.txt && cat made.txt"},
                {"call": call("task_complete", "w", summary="one word")},
                DONE,
            ]
        },
    }
    async with ModelServer({"lanes": lanes}) as server:
        application.configure(server.base_url)
        result, master = await application.run(PermissionMode.BYPASS)
    assert server.failures == []
    assert (result.status, result.summary) == ("completed", "one word, it says"), result
    assert [(child.name, child.state) for child in master.children] == [("w1", "completed")]
    assert (application.workspace / "made.txt").read_text() == "hi\n"
    assert result.usage.input_tokens == 400


@pytest.mark.requirement("R27")
async def test_what_nobody_allows_does_not_run(application):
    steps = [
        {"shell": "curl http://127.0.0.1:1 > made.txt"},
        {"call": call("task_complete", "m", summary="refused")},
        DONE,
    ]
    async with ModelServer({"lanes": {"master": {"steps": steps}}}) as server:
        application.configure(server.base_url)
        result, _ = await application.run()
    assert server.failures == []
    assert (result.status, result.summary) == ("completed", "refused"), result
    assert not (application.workspace / "made.txt").exists()


async def test_a_provider_of_ones_own_name_is_probed_like_any_other(application):
    application.configure("http://127.0.0.1:1/v1")
    statuses = await survey_providers(
        application.settings, application.plugins, paths=application.paths
    )
    assert statuses["mine"].status.available
    assert "acp" not in statuses
