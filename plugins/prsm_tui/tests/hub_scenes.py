"""Many sessions for the tests: a scripted hub, or a real one whose runs are real processes."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import asynccontextmanager, closing

from prsm_tui.hub_frontend import compose_hub

from plugins.prsm_tui.tests.scenes import Eyes
from prsm_core.cli.errands import CommandErrands
from prsm_core.cli.launch import Launch
from prsm_core.cli.opening import Setups
from prsm_core.engine.processes.launcher import install_child_watcher
from prsm_core.hub import open_hub
from prsm_core.interfaces.frontend import FrontendSpec, RunOptions


@asynccontextmanager
async def watching_hub(hub, size=(100, 30), **options):
    """Open the screen of many sessions; leaving closes it."""
    tui, beside = compose_hub(hub, **options)
    async with asyncio.TaskGroup() as group:
        helpers = [group.create_task(work()) for work in beside]
        async with tui.run_test(size=size) as pilot:
            yield Eyes(pilot)
        for helper in helpers:
            helper.cancel()


@asynccontextmanager
async def real_hub(folder, monkeypatch, scenario, files=None):
    """Open the real hub, whose runs follow a scenario, each in a process of its own."""
    monkeypatch.setenv("PRSM_HOME", str(folder / "home"))
    monkeypatch.setenv("PRSM_PLUGINS", "")
    install_child_watcher()
    workspace = folder / "workspace"
    if files is None:
        workspace.mkdir()
    else:
        shutil.copytree(files, workspace)
    sets = (f"providers.script.scenario={scenario}",)
    setups = Setups(Launch(), sets)
    setup = setups.load(str(workspace))
    spec = FrontendSpec(
        name="sessions", summary="", interactive=True, priority=0, factory="", scope="hub"
    )
    options = RunOptions(workspace=str(setup.paths.workspace), provider="script")
    errands = CommandErrands(Launch(), sets, setups.keepers)
    with closing(errands):
        async with open_hub(options, setups.load, frontend=spec, errands=errands) as hub:
            yield hub
