"""A table of writes into another's region: none of them lands unasked, wherever the two work.

The engine, its permissions, worktrees and sandbox are the real ones. Nobody is there to be asked,
so that what is asked about is refused. What is let through is done, as the vendor's tools would.
"""

from __future__ import annotations

import asyncio
import shutil
from typing import Any

import pytest
from prsm_files.shadow.opening import Shadows

from plugins.prsm_files.tests.session.region_writes import (
    ALLOWING,
    COMMANDS,
    FILES,
    HELD,
    WRITES,
    prepare,
    region_of,
    run,
)
from prsm_core.config.schema import PermissionSettings
from prsm_core.domain.agents import PermissionMode
from prsm_core.domain.permissions import Allow, PermissionRequest
from prsm_core.permissions import PermissionBroker
from tests.command_policies import policy_for
from tests.engine.harness import open_team
from tests.engine.sandboxes import needs_bwrap

pytestmark = [
    pytest.mark.requirement("E24", "F7", "U12"),
    pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed"),
    pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed"),
]

# Where the owner of the region works, and where the other one does, and with which region.
PLACES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "both in the folder": ({}, {}),
    "the owner apart": ({"worktree": True}, {}),
    "the other apart": ({}, {"worktree": True}),
    "each apart": ({"worktree": True}, {"worktree": True}),
    "each apart with a region": ({"worktree": True}, {"worktree": True, "region": ["area"]}),
    "each with a region": ({}, {"region": ["area"]}),
}
MODES = {
    **{mode.value: {"mode": mode} for mode in PermissionMode if mode is not PermissionMode.BYPASS},
}
OFTEN = {("both in the folder", "vendor"), ("the other apart", "sandbox")}  # tried in each run
SHELLS = {"vendor": [], "sandbox": [needs_bwrap]}
WAYS = [
    pytest.param(
        place,
        shell,
        marks=[*needed, *([] if (place, shell) in OFTEN else [pytest.mark.long])],
    )
    for place in PLACES
    for shell, needed in SHELLS.items()
]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prepared")
    prepare(folder)
    return folder


@pytest.fixture
def folder(tmp_path, monkeypatch, prepared):
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return shutil.copytree(prepared, tmp_path / "workspace", symlinks=True)


@pytest.fixture
def opened(tmp_path, folder):
    def open_it(shell):
        permissions = PermissionSettings.of(ALLOWING)
        broker = PermissionBroker(
            permissions,
            commands=policy_for(permissions),
            checks={},
            orchestration=(),
        )
        shadows = Shadows(
            state=tmp_path / "state", data=tmp_path / "data", trees=tmp_path / "trees"
        )
        settings = {"sandbox": "auto" if shell == "sandbox" else "off"}
        return open_team(tmp_path, broker=broker, shadows=shadows, settings=settings)

    return open_it


async def tries(agent, shell):
    """Try every write of the table, and do each that is let through."""
    cwd = agent.session.request.cwd
    for one in FILES:
        paths, arguments = one.request(cwd)
        request = PermissionRequest(
            agent_id=agent.id, tool=one.tool, paths=paths, arguments=arguments, cwd=cwd
        )
        if isinstance(await agent.host.authorize(request), Allow):
            await asyncio.to_thread(one.do, cwd)
    for command in COMMANDS:
        if shell == "sandbox":
            await agent.outcome("run_bash", {"command": command})
            continue
        request = PermissionRequest(agent_id=agent.id, tool="Bash", command=command, cwd=cwd)
        if isinstance(await agent.host.authorize(request), Allow):
            await asyncio.to_thread(run, command, cwd)


async def none_lands(opened, folder, place, shell, options):
    """Have one agent try them all beside an owner; return what was asked about."""
    own, others = PLACES[place]
    before, seen = region_of(folder), {}

    async def master(agent):
        await agent.spawn(name="owner", region=list(HELD), **own)
        message = await agent.call("wait_for_message")
        await agent.spawn(name="other", **others, wait=True)
        seen["after the other"] = region_of(folder)
        about = {"child_id": message["from"], "correlation_id": message["correlation_id"]}
        await agent.call("respond_to_child", response="go on", **about)
        await agent.collect()
        await agent.complete()

    async def owner(agent):
        await agent.call("ask_parent", question="more?")
        seen["where the owner works"] = region_of(agent.session.request.cwd)
        await agent.complete()

    async def other(agent):
        await tries(agent, shell)
        await agent.complete()

    async with opened(shell) as team:
        result = await team.run("do it", options, master=master, owner=owner, other=other)
    assert result.status == "completed"
    assert seen == {"after the other": before, "where the owner works": before}
    assert region_of(folder) == before
    return team.ledger.events("permission_requested", "other")


@pytest.mark.parametrize(("place", "shell"), WAYS)
async def test_no_write_into_anothers_region_lands_unasked_in_bypass(opened, folder, place, shell):
    asked = await none_lands(opened, folder, place, shell, {"mode": PermissionMode.BYPASS})
    assert len(asked) >= len(FILES), "each of the file tools is asked about, wherever it writes"


@pytest.mark.long
@pytest.mark.parametrize(("place", "shell"), WAYS)
@pytest.mark.parametrize("mode", MODES)
async def test_no_write_into_anothers_region_lands_unasked_in_any_mode(
    opened, folder, place, shell, mode
):
    await none_lands(opened, folder, place, shell, MODES[mode])


async def test_none_lands_unasked_beside_each_other_where_edits_are_accepted(opened, folder):
    await none_lands(opened, folder, "both in the folder", "vendor", MODES["accept_edits"])


@pytest.mark.parametrize("one", WRITES, ids=str)
def test_each_write_of_the_table_is_one_where_nothing_keeps_it_from_that(folder, one):
    before = region_of(folder)
    if isinstance(one, str):
        run(one, str(folder))
    else:
        one.do(str(folder))
    assert region_of(folder) != before
