"""Two sessions run at once, and one that cannot be opened does not touch them."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from prsm_across import Across, AcrossFrontend

from prsm_core import ConfigError, RunOptions, RunResult
from prsm_core.testing import ScriptedApp


class FakeHub:
    """A hub over scripted sessions, by the name of their folder; `gone` is not there."""

    options = RunOptions(workspace="/work")

    def __init__(self, *folders):
        self.apps = {name: ScriptedApp() for name in folders}
        self.closed = []

    @asynccontextmanager
    async def open(self, options):
        name = Path(options.workspace).name
        if name not in self.apps:
            raise ConfigError(f"{name} is no folder")
        app = self.apps[name]
        app.options = replace(options, session=name)
        try:
            yield app
        finally:
            self.closed.append(name)


@pytest.mark.asyncio
async def test_the_task_runs_in_all_folders_at_once(capsys):
    hub = FakeHub("one", "two")
    frontend = AcrossFrontend({}, Across(task="do it", folders=("one", "gone", "two")))
    async with asyncio.TaskGroup() as group:
        ended = group.create_task(frontend.run(hub))
        for app in hub.apps.values():
            await app.started()  # both, before any of them ends
        hub.apps["two"].finish()
        hub.apps["one"].finish(RunResult(status="failed", summary="", exit_code=4, error="no\x1b!"))
    assert ended.result() == 4
    said = capsys.readouterr().out.splitlines()
    assert "gone: gone is no folder" in said
    assert "two: completed: All done." in said
    assert "one: failed: no !" in said
    assert sorted(hub.closed) == ["one", "two"]
