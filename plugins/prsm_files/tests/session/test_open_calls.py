"""The writing calls of a run are on the disk, whatever happens beside them."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

import pytest
from prsm_files.shadow.opening import Shadows

from prsm_core.domain.permissions import PermissionRequest
from tests.engine.deaths import die, go_on, run_to_death
from tests.engine.harness import open_team

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@pytest.fixture
def opened(tmp_path):
    shadows = Shadows(state=tmp_path / "state", data=tmp_path / "data")
    return lambda **more: open_team(tmp_path, shadows=shadows, on_ask="allow", **more)


async def begin(agent, call):
    """Begin a call that may write any file, once it is allowed to."""
    request = PermissionRequest(
        agent_id=agent.id, tool="Bash", command="some command", cwd=".", call_id=call
    )
    await agent.host.authorize(request)
    await agent.start_tool(call, "Bash", command="some command")


async def test_their_file_has_one_writer(opened, monkeypatch):
    """The loop, in which calls begin and end, and never the thread that looks at the folder."""
    writers = set()
    replace = os.replace

    def noted(source, target):
        if str(target).endswith("calls.json"):
            writers.add(threading.get_ident())
        replace(source, target)

    monkeypatch.setattr(os, "replace", noted)

    async def master(agent):
        await begin(agent, "one")
        await die(team)

    async def mastered(agent):
        await begin(agent, "two")
        await agent.end_tool("two")
        await agent.complete()

    async with opened(check=False) as team:
        await run_to_death(team, master=master)
    async with opened() as again:
        assert (await go_on(again, master=mastered)).status == "completed"
    assert writers == {threading.get_ident()}


async def test_where_they_cannot_be_kept_it_is_told_and_the_run_goes_on(opened, monkeypatch):
    full = OSError(28, "No space left on device")
    replace = Path.write_bytes

    def fails(self, *args, **more):
        if self.name == "calls.json.new":
            raise full
        return replace(self, *args, **more)

    monkeypatch.setattr(Path, "write_bytes", fails)

    async def master(agent):
        await begin(agent, "one")
        await agent.end_tool("one")
        await agent.complete()

    async with opened() as team:
        assert (await team.run("do it", master=master)).exit_code == 0
    [told] = [one["text"] for one in team.ledger.events("notice") if "is not found" in one["text"]]
    assert told.endswith("No space left on device")
