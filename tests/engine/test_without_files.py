"""An engine where nothing keeps the files runs, and says what it lacks."""

from __future__ import annotations

import pytest

from prsm_core.door import Comment
from prsm_core.engine.workspace_files import KEEP, UNWEIGHED, WorkspaceFiles
from prsm_core.errors import ConfigError
from tests.engine.harness import open_team


@pytest.fixture
def opened(tmp_path):
    return lambda: open_team(tmp_path, config={"files": WorkspaceFiles}, on_ask="allow")


async def test_a_run_works_and_its_claims_stay_claims(opened):
    async def master(agent):
        await agent.complete("done", artifacts=["a.txt"], commands=["pytest"])

    async with opened() as team:
        result = await team.run("go", master=master)
    assert result.status == "completed"
    end = team.ledger.events("agent_state_changed")[-1]
    assert (end["to"], end["evidence"], end["evidence_gaps"]) == (
        "completed",
        "claimed",
        [UNWEIGHED],
    )


async def test_a_worktree_that_is_asked_for_is_refused_with_the_reason(opened):
    async def master(agent):
        wish = {"prompt": "write", "name": "w", "worktree": True, "wait": True}
        outcome = await agent.outcome("spawn_child", wish)
        assert outcome.data["error"]["code"] == "no_worktree"
        assert "no plugin keeps files here" in outcome.text
        await agent.complete("done")

    async with opened() as team:
        assert (await team.run("go", master=master)).status == "completed"


async def silent(*_):
    raise AssertionError("nothing is said")


async def test_what_a_person_would_do_with_files_is_refused(opened):
    async with opened() as team:
        files = team.engine.files
        changes, snapshots = files.door(lambda: False, None, silent)
        assert await changes.list() == ()
        for act in (
            changes.accept(),
            changes.show("f1"),
            changes.comment([Comment(change="f1", text="why?")]),
            snapshots.take(),
            changes.undo("prompt"),
            snapshots.restore("s1", dry_run=True),
        ):
            with pytest.raises(ConfigError) as refused:
                await act
            assert (refused.value.code, refused.value.hint) == ("no_files", KEEP)
