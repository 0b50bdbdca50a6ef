"""The frontend keeps the contract, and names the folder of each run."""

import asyncio

from prsm_across import Across, AcrossFrontend
from prsm_testing import HubFrontendContract, ScriptedHub

from prsm_core import RunResult


class TestAcross(HubFrontendContract):
    def build(self, settings, workspaces):
        return AcrossFrontend(settings, Across(task="do it", folders=workspaces))

    async def test_the_end_of_each_run_has_the_name_of_its_folder(self, capsys):
        hub = ScriptedHub()
        async with asyncio.TaskGroup() as group:
            ended = group.create_task(self.build({}, ("one", "../two")).run(hub))
            one, two = await hub.opened("/work/one"), await hub.opened("/work/../two")
            for app in (one, two):  # both run before any of them ends
                assert (await app.started()).session == app.options.session
            two.finish()
            one.finish(RunResult(status="failed", summary="", exit_code=4, error="no!"))
        assert ended.result() == 4
        said = capsys.readouterr().out.splitlines()
        assert {"../two: completed: All done.", "one: failed: no!"} <= set(said)
        assert hub.owned == []
