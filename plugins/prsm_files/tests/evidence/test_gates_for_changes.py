"""Gates run for whoever changed files, as PRSM measured it, and a red one ends the run with 5."""

from __future__ import annotations

import shutil
import subprocess
from functools import partial
from pathlib import Path

import pytest
from prsm_files.shadow.opening import Shadows

from plugins.prsm_files.tests.session.hands import Hand
from tests.engine.harness import open_team

pytestmark = [
    pytest.mark.requirement("U28"),
    pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed"),
]

COUNTS = "echo ran >> ../ran; test -f good.py"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    work = tmp_path / "workspace"
    work.mkdir()
    git = partial(subprocess.run, cwd=work, check=True, capture_output=True)
    (work / "a").write_text("a\n")
    git(["git", "init", "-q", "-b", "main"])
    git(["git", "add", "-A"])
    git(["git", "-c", "user.name=n", "-c", "user.email=e@x", "commit", "-q", "-m", "first"])
    return work


@pytest.fixture
def opened(tmp_path, folder):
    shadows = Shadows(state=tmp_path / "state", data=tmp_path / "data", trees=tmp_path / "trees")
    return partial(open_team, tmp_path, shadows=shadows, on_ask="allow")


def gates(command=COUNTS, **about):
    return {"gates": {"tests": {"command": command, **about}}}


def runs(folder):
    ran = folder.parent / "ran"
    return len(ran.read_text().split()) if ran.exists() else 0


def ends(team):
    return [(one["problem"], one["required"]) for one in team.ledger.events("gate_finished")]


def put_in_its_folder(agent, name, text):
    Path(agent.session.request.cwd, name).write_text(text)


async def leads(agent):
    await agent.spawn(name="a")
    [agent.memory["told"]] = await agent.collect()
    await agent.complete()


async def test_a_gate_runs_for_who_changed_files_and_named_none(opened, folder):
    async def a(agent):
        await Hand(agent, folder).write("good.py", "x\n")
        await agent.complete()

    async with opened(settings=gates()) as team:
        result = await team.run(master=leads, a=a)
        assert (result.exit_code, result.evidence) == (0, "verified")
        assert team["a"].result.evidence == "verified"
    assert runs(folder) == 1  # nothing changed since, so that the master's is not run again
    assert ends(team) == [(None, True)]


async def test_no_gate_runs_for_who_names_files_that_it_did_not_change(opened, folder):
    async def a(agent):
        await agent.complete(artifacts=["a"])

    async with opened(settings=gates()) as team:
        assert (await team.run(master=leads, a=a)).exit_code == 0
    assert runs(folder) == 0


async def test_a_gate_runs_where_a_turn_ends_without_task_complete(opened, folder):
    async def master(agent):
        if agent.turn == 1:
            await Hand(agent, folder).write("bad.py", "x\n")
        else:
            assert agent.text is not None
            assert "gate tests failed with exit code 1" in agent.text
            await Hand(agent, folder).write("good.py", "x\n")
        await agent.say("all is well")

    async with opened(settings=gates()) as team:
        result = await team.run(master=master)
    assert (result.status, result.exit_code, result.evidence) == ("completed", 0, "verified")
    assert ends(team) == [("failed with exit code 1", True), (None, True)]


@pytest.mark.parametrize("says", [True, False])
@pytest.mark.parametrize(
    ("about", "problem"),
    [
        ({"command": "exit 3"}, "failed with exit code 3"),
        ({"command": "true", "cwd": "nowhere"}, None),
    ],
)
async def test_a_gate_that_stays_red_ends_the_run_with_5_and_says_why(
    opened, folder, says, about, problem
):
    async def a(agent):
        if agent.turn == 1:
            await Hand(agent, folder).write("bad.py", "x\n")
        if says:
            await agent.complete()
        else:
            await agent.say("it is done")

    settings = gates(**about, roles=["worker"])
    async with opened(settings=settings, engine={"gate_refusals": 1 - says}) as team:
        result = await team.run(master=leads, a=a)
    assert (result.status, result.exit_code) == ("completed", 5)
    [red] = [one for one in result.problems if one.kind == "gate"]
    assert problem is None or problem in red.text
    [end] = team.ledger.events("run_finished")
    assert end["exit_code"] == 5
    assert {"kind": "gate", "agent": red.agent, "text": red.text} in end["problems"]


async def test_a_gate_that_is_not_required_is_advice_only(opened, folder):
    async def a(agent):
        await Hand(agent, folder).write("bad.py", "x\n")
        await agent.start_tool("check", "Bash", command="pytest")
        await agent.end_tool("check", exit_code=0)
        await agent.complete()

    async with opened(settings=gates(required=False)) as team:
        result = await team.run(master=leads, a=a)
        assert team["a"].result.evidence == "checked"
    assert result.exit_code == 0
    assert ends(team)[0] == ("failed with exit code 1", False)
    assert [one.kind for one in result.problems] == ["advice"]


async def test_the_masters_gate_judges_what_others_left_in_the_whole_tree(opened, folder):
    async def a(agent):
        await Hand(agent, folder).write("bad.py", "x\n")
        await agent.complete()

    async def master(agent):
        await agent.spawn(name="a")
        await agent.collect()
        assert await agent.refused("task_complete", summary="done") == "gate_failed"
        await Hand(agent, folder).write("good.py", "x\n")
        await agent.complete()

    async with opened(settings=gates(roles=["master"])) as team:
        result = await team.run(master=master, a=a)
    assert (result.exit_code, result.evidence) == (0, "verified")


async def test_what_is_changed_in_a_worktree_is_measured_there(opened, folder):
    async def a(agent):
        put_in_its_folder(agent, "bad.py", "no call tells of it\n")
        await agent.complete()

    async def master(agent):
        await agent.call("spawn_child", prompt="x", name="a", worktree=True)
        await agent.collect()
        await agent.complete()

    settings = gates(roles=["worker"])
    async with opened(settings=settings, engine={"gate_refusals": 0}) as team:
        result = await team.run(master=master, a=a)
    assert result.exit_code == 5
    assert ends(team) == [("failed with exit code 1", True)]


async def test_work_that_is_not_merged_ends_the_run_with_5(opened, folder):
    async def a(agent):
        put_in_its_folder(agent, "a", "theirs\n")
        await agent.complete()

    async def master(agent):
        await agent.call("spawn_child", prompt="x", name="a", worktree=True)
        (folder / "a").write_text("ours\n")
        await agent.collect()
        await agent.complete()

    async with opened() as team:
        result = await team.run(master=master, a=a)
    assert (result.status, result.exit_code) == ("completed", 5)
    assert [one.kind for one in result.problems if one.kind == "unmerged"] == ["unmerged"]


async def test_gates_run_again_for_what_children_did_after_the_claim(opened, folder):
    async def a(agent):
        await team.seen("tool_call_finished", "master", status="completed", call="done")
        await Hand(agent, folder).shell((folder / "good.py").unlink)
        await agent.say("broke it")

    async def master(agent):
        await Hand(agent, folder).write("good.py", "x\n")
        await agent.spawn(name="a")
        await agent.outcome("task_complete", {"summary": "done"}, call_id="done")

    async with opened(settings=gates(roles=["master"])) as team:
        result = await team.run(master=master, a=a)
    assert (result.status, result.exit_code, result.evidence) == ("completed", 5, "claimed")
