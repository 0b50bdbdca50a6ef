"""Claimed files against what was found in them: no commit is needed, no clock asked."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from functools import partial

import pytest

from plugins.prsm_files.tests.session.hands import CountedShadows, Hand
from tests.engine.deaths import die, go_on, run_to_death
from tests.engine.harness import open_team

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

SAME = "is as it was before the agent began"


@pytest.fixture(params=["repository", "plain"])
def folder(request, tmp_path):
    """A workspace with files that no commit has; one that is no repository, too."""
    work = tmp_path / "workspace"
    work.mkdir()
    if request.param == "repository":
        git = partial(subprocess.run, cwd=work, check=True, capture_output=True)
        git(["git", "init", "-q"])
    (work / "same").write_text("there already\n")
    (work / "dirty").write_text("edited by a person\n")
    return work


@pytest.fixture
def opened(tmp_path, folder):
    shadows = CountedShadows(state=tmp_path / "state", data=tmp_path / "data")
    return partial(open_team, tmp_path, shadows=shadows, on_ask="allow")


async def claim(agent, *files):
    """Check, and claim files; return what is wrong with them."""
    await agent.start_tool("check", "Bash", command="pytest")
    await agent.end_tool("check", exit_code=0)
    said = {"summary": "done", "artifacts": list(files)}
    outcome = await agent.outcome("task_complete", said)
    return outcome.data["evidence"], list(outcome.data.get("evidence_gaps", ()))


async def write_same_and_new(agent, folder):
    hand = Hand(agent, folder)
    await hand.write("same", "there already\n")
    await hand.write("new", "made\n")
    await hand.shell(lambda: (folder / "dirty").write_text("tried\n"))
    await hand.shell(lambda: (folder / "dirty").write_text("edited by a person\n"))


@pytest.mark.requirement("U13")
async def test_a_file_that_no_commit_has_and_that_is_the_same_is_not_new(opened, folder):
    claims = []

    async def child(agent):
        await write_same_and_new(agent, folder)
        claims.append(await claim(agent, "new", "same", "dirty"))

    async def master(agent):
        await agent.spawn(name="a", tools=["Write", "Bash"])
        await agent.collect(1)
        await agent.complete()

    async with opened() as team:
        assert (await team.run(master=master, a=child)).status == "completed"
    assert claims == [("claimed", [f"'same' {SAME}", f"'dirty' {SAME}"])]


@pytest.mark.requirement("U13")
async def test_so_it_is_after_a_resume(opened, folder):
    claims = []

    async def master(agent):
        await write_same_and_new(agent, folder)
        await team.engine.files.watch.get().flush()
        await die(team)

    async def mastered(agent):
        claims.append(await claim(agent, "new", "same", "dirty"))

    async with opened(check=False) as team:
        await run_to_death(team, master=master)
    async with opened() as again:
        assert (await go_on(again, master=mastered)).status == "completed"
    assert claims == [("claimed", [f"'same' {SAME}", f"'dirty' {SAME}"])]


@pytest.mark.requirement("U13")
async def test_what_another_agent_changed_is_not_its_own(opened, folder):
    claims, written = {}, asyncio.Event()

    async def worker(agent):
        await Hand(agent, folder).write("theirs", "x\n")
        written.set()
        await agent.complete()

    async def other(agent):
        await written.wait()
        claims["other"] = await claim(agent, "theirs")

    async def master(agent):
        await agent.spawn(name="w2", tools=["Write"])
        await agent.spawn(name="w1", tools=["Write"])
        await agent.collect(2)
        claims["master"] = await claim(agent, "theirs")

    async with opened() as team:
        assert (await team.run(master=master, w1=worker, w2=other)).status == "completed"
    gap = "'theirs' was changed by w1, and not by the agent"
    assert claims == {"other": ("claimed", [gap]), "master": ("checked", [])}


async def test_what_git_ignores_is_judged_by_its_time_as_where_nobody_watches(opened, folder):
    if not (folder / ".git").exists():
        pytest.skip("a folder that is no repository ignores nothing")
    (folder / ".gitignore").write_text("built*\n")
    (folder / "built-before").write_text("x\n")
    claims = []

    async def master(agent):
        await Hand(agent, folder).shell(lambda: (folder / "built").write_text("x\n"))
        claims.append(await claim(agent, "built"))

    async with opened() as team:
        assert (await team.run(master=master)).status == "completed"
    assert claims == [("checked", [])]
