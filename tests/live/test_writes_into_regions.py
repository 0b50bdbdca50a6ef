"""The table of writes into another's region, tried by the real Codex: none lands unasked.

Codex does each as it would by itself: by a patch, or in its shell. A person is asked, and refuses.
"""

from __future__ import annotations

import pytest
from prsm_testing.model_server import ModelServer

from plugins.prsm_files.tests.session.region_writes import (
    ALLOWING,
    COMMANDS,
    HELD,
    prepare,
    region_of,
)
from prsm_core.domain.agents import PermissionMode
from tests.live.test_same_verdict import CALL_DONE, DONE, SECTIONS, play, program, workspace

pytestmark = [pytest.mark.live, pytest.mark.requirement("E24", "U12")]

__all__ = ["workspace"]  # a fixture

CODEX = [name for name in SECTIONS if name.startswith("codex")]
WAYS = [
    *((name, "bypass") for name in CODEX),
    *(("codex", mode.value) for mode in PermissionMode if mode is not PermissionMode.BYPASS),
]
ADD = "*** Begin Patch\n*** Add File: {}\n+another's\n*** End Patch\n"
EDIT = "*** Begin Patch\n*** Update File: {}\n@@\n-{}\n+another's\n*** End Patch\n"
MOVE = "*** Begin Patch\n*** Update File: {}\n*** Move to: {}\n@@\n-{}\n+another's\n*** End Patch\n"
PATCHES = (
    ADD.format("src/new.py"),
    EDIT.format("area/../src/kept", "kept"),
    EDIT.format("one.py", "one"),
    ADD.format("later.py"),
    ADD.format("area/way/through.py"),  # a link to the folder
    MOVE.format("area/own", "src/moved", "own"),
    "*** Begin Patch\n*** Delete File: src/kept\n*** End Patch\n",
)
LANDED = {"src/new.py", "src/kept", "one.py", "later.py", "src/through.py", "src/moved"}
MOVES = (
    "mv src/kept area/taken",
    "mv area/own src/kept",
    "mv src area/all",
    "ln -sf ../area/own src/kept",
    f"apply_patch <<'EOF'\n{ADD.format('src/sly.py')}EOF\n",
)
STEPS = [*({"patch": text} for text in PATCHES), *({"shell": one} for one in (*COMMANDS, *MOVES))]
RULES = {  # every rule that could let a write through
    "allow": [*ALLOWING["allow"], "mv", "apply_patch"],
    "tools": ALLOWING["tools"],
    "edits": "allow",
}
OTHER = {"name": "other", "prompt": "Try them.", "model": "tried/scripted-1", "wait": True}


def call(tool, name=None, /, **arguments):
    """Return the step of a call, whose answer has a name if one is given."""
    return {"call": {"tool": tool, "arguments": arguments} | ({"id": name} if name else {})}


def lanes_of(other, **owner):
    """Return what is played beside Codex: an owner that is at work as long as Codex is."""
    about = {"child_id": "${asked.from}", "correlation_id": "${asked.correlation_id}"}
    master = [
        call("spawn_child", name="owner", prompt="Own it.", region=list(HELD), **owner),
        call("wait_for_message", "asked"),
        call("spawn_child", **OTHER, **other),
        call("respond_to_child", response="go on", **about),
        call("collect_children"),
        DONE,
    ]
    owner_of_it = [call("ask_parent", question="more?"), DONE]
    return {"master": {"steps": master}, "owner": {"steps": owner_of_it}}


async def try_all(workspace, name, mode, lanes=None, steps=STEPS):
    """Have Codex try them; return the events of the run. Each step has been a call."""
    variable, arguments, vendor = SECTIONS[name]
    by_mcp = {"namespace": "mcp__prsm"} if vendor.get("backend") == "exec" else {}
    played = [*steps, {"call": {**CALL_DONE, **by_mcp}}, {"hang": True}]
    async with ModelServer({"lanes": {"other": {"marker": "", "steps": played}}}) as server:
        section = {**vendor, "command": [program(variable), *arguments]}
        events = await play(
            workspace,
            {**section, "base_url": server.base_url, "api_key_env": "LIVE_TEST_KEY"},
            RULES,
            answers=["deny"] * len(steps),
            worker=OTHER,
            lanes=lanes,
            mode=PermissionMode(mode),
        )
        assert server.failures == []
    return events


@pytest.mark.parametrize(("name", "mode"), WAYS)
async def test_no_write_of_codex_into_anothers_region_lands_unasked(workspace, name, mode):
    prepare(workspace)
    before = region_of(workspace)
    await try_all(workspace, name, mode, lanes_of({}))
    assert region_of(workspace) == before


async def test_none_lands_from_a_worktree_of_its_own(workspace):
    prepare(workspace)
    before = region_of(workspace)
    await try_all(workspace, "codex", "bypass", lanes_of({"worktree": True}))
    assert region_of(workspace) == before


async def test_each_patch_lands_where_nobody_holds_the_region(workspace):
    prepare(workspace)
    before = region_of(workspace)
    await try_all(workspace, "codex", "bypass", steps=[{"patch": text} for text in PATCHES])
    after = region_of(workspace)
    assert {path for path in {*before, *after} if before.get(path) != after.get(path)} == LANDED
