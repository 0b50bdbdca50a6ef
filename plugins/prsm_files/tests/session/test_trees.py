"""Agents with worktrees: what they change is merged at their end, or told, and nothing is lost."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import partial
from pathlib import Path

import pytest
from msgspec import to_builtins
from prsm_files.shadow.opening import Shadows
from prsm_testing.doubles import until

from prsm_core.domain.writes import AgentEnded, AgentSpawned
from prsm_core.engine.door.local import LocalApp
from prsm_core.interfaces.frontend import RunOptions
from tests.engine.deaths import die, dies_after, dies_at, go_on, run_to_death
from tests.engine.harness import DEADLINE, SESSION, complete, open_team
from tests.engine.held_store import HeldStore

pytestmark = [
    pytest.mark.requirement("U12"),
    pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed"),
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A workspace that is a repository with a commit, and what is in none."""
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    work = tmp_path / "workspace"
    work.mkdir()
    (work / "a").write_text("".join(f"line {n}\n" for n in range(20)))
    (work / "sub").mkdir()
    (work / "sub" / "b").write_text("b\n")
    git(work, "init", "-q", "-b", "main")
    git(work, "add", "-A")
    git(work, "-c", "user.name=n", "-c", "user.email=e@x", "commit", "-q", "-m", "first")
    (work / "untracked").write_text("a secret\n")
    return work


def git(folder, *args):
    done = subprocess.run(
        ["git", *args], cwd=folder, check=True, capture_output=True, env=os.environ
    )
    return os.fsdecode(done.stdout).strip()


@pytest.fixture
def opened(tmp_path, folder):
    shadows = Shadows(state=tmp_path / "state", data=tmp_path / "data", trees=tmp_path / "trees")
    return partial(open_team, tmp_path, shadows=shadows, on_ask="allow")


def here(agent, name="."):
    """Return a file of the folder that an agent works in."""
    return Path(agent.session.request.cwd, name)


def merges(team):
    return {event["agent"]: event for event in team.ledger.events("worktree_merged")}


def rewrite(agent, old, new, name="a"):
    file = here(agent, name)
    file.write_text(file.read_text().replace(old, new))


def is_clean(folder, tmp_path):
    """Return whether nothing of any worktree is left."""
    trees = list((tmp_path / "trees").glob("*/*"))
    return not trees and git(folder, "branch", "--list", "prsm/*") == ""


async def test_children_in_worktrees_of_their_own_are_merged_into_the_parents_files(
    opened, folder, tmp_path
):
    places, heard = {}, []

    async def worker(agent):
        places[agent.name] = here(agent)
        assert here(agent, "untracked").read_text() == "a secret\n"
        rewrite(agent, *{"w1": ("line 3\n", "w1\n"), "w2": ("line 15\n", "w2\n")}[agent.name])
        await agent.complete()

    async def master(agent):
        task = {"prompt": "work", "worktree": True}
        await agent.call("spawn_children_parallel", children=[task, task])
        heard.extend(await agent.collect(2))
        await agent.complete()

    async with opened() as team:
        result = await team.run(master=master, w1=worker, w2=worker)
        assert result.status == "completed"
        assert is_clean(folder, tmp_path)
    assert len({*places.values(), folder}) == 3
    text = (folder / "a").read_text()
    assert "w1\n" in text
    assert "w2\n" in text
    assert {name: one["result"] for name, one in merges(team).items()} == {
        "w1": "merged",
        "w2": "merged",
    }
    assert {one["worktree"]["result"] for one in heard} == {"merged"}
    told = [(one["path"], one["agent"], one["how"]) for one in team.ledger.events("file_changed")]
    assert sorted(told) == [("a", "w1", "sole"), ("a", "w2", "sole")]
    assert git(folder, "status", "--short") == "M a\n?? untracked"


async def test_one_of_two_that_edit_the_same_line_is_merged_and_the_other_told_to_the_parent(
    opened, folder, tmp_path
):
    heard = {}

    async def worker(agent):
        rewrite(agent, "line 3\n", f"{agent.name}\n")
        here(agent, f"of-{agent.name}").write_text("more\n")
        await agent.complete(f"{agent.name} has changed line 3")

    async def master(agent):
        await agent.spawn(name="w1", worktree=True)
        await agent.spawn(name="w2", worktree=True)
        for _ in range(2):
            [one] = await agent.collect()
            heard[one["worktree"]["result"]] = one
        await agent.complete()

    async with opened() as team:
        await team.run(master=master, w1=worker, w2=worker)
        first, second = heard["merged"]["name"], heard["conflict"]["name"]
        tree = heard["conflict"]["worktree"]
        assert tree["conflicts"][0]["path"] == "a"
        assert tree["branch"].endswith(f"/{second}")
        assert f"line 3\n+{second}" in git(folder, "diff", f"main...{tree['branch']}")
        assert "secret" not in git(folder, "log", "-p", tree["branch"])
        assert f"of-{second}" in git(tree["worktree"], "ls-files")
        app = LocalApp(team.engine, RunOptions(provider="script"), team.store, SESSION)
        [left] = await app.changes.worktrees()
    assert (left.name, left.result, left.branch) == (second, "conflict", tree["branch"])
    assert (left.folder, left.parent) == (tree["worktree"], str(folder))
    assert (left.files, list(to_builtins(left.conflicts))) == (
        ("a", f"of-{second}"),
        tree["conflicts"],
    )
    assert f"{first}\n" in (folder / "a").read_text()
    assert (folder / f"of-{first}").exists()
    assert not (folder / f"of-{second}").exists()
    assert merges(team)[second]["conflicts"] == tree["conflicts"]


async def test_a_child_that_fails_is_not_merged_and_its_work_stays_on_its_branch(opened, folder):
    async def worker(agent):
        here(agent, "new").write_text("half of it\n")
        await agent.hang()

    async def master(agent):
        name = await agent.spawn(worktree=True)
        await team.seen("turn_started", name)
        await until((Path(team[name].descriptor.cwd) / "new").exists, timeout_s=DEADLINE)
        await team.manager.kill_agent(team[name].agent_id)
        await agent.collect()
        await agent.complete()

    async with opened() as team:
        await team.run(master=master, w1=worker)
    told = merges(team)["w1"]
    assert (told["result"], told["files"]) == ("kept", ["new"])
    assert git(folder, "show", f"{told['branch']}:new") == "half of it"
    assert not (folder / "new").exists()


async def test_of_a_child_with_a_region_that_alone_is_merged_and_its_parent_is_told_of_the_rest(
    opened, folder, tmp_path
):
    heard, prompts = {}, {}

    async def worker(agent):
        prompts[agent.name] = agent.context.system_prompt
        here(agent, "sub/b").write_text(f"{agent.name}\n")
        if agent.name == "w1":
            here(agent, "stray").write_text("x\n")
            here(agent, "a").unlink()
        await agent.complete()

    async def master(agent):
        for name, region in (("w1", ["sub"]), ("w2", ["sub/b", "sub/later.py"])):
            await agent.spawn(name=name, worktree=True, region=region)
            [heard[name]] = await agent.collect()
        await agent.complete()

    async with opened() as team:
        await team.run(master=master, w1=worker, w2=worker)
        app = LocalApp(team.engine, RunOptions(provider="script"), team.store, SESSION)
        [left] = await app.changes.worktrees()
        agents = {name: team[name].descriptor for name in heard}
    tree = heard["w1"]["worktree"]
    assert heard["w1"]["success"]
    assert (tree["result"], tree["outside_count"]) == ("partial", 2)
    assert [one["path"] for one in tree["outside"]] == ["a", "stray"]
    assert tree["outside"] == merges(team)["w1"]["outside"] == list(to_builtins(left.outside))
    assert (left.name, left.result) == ("w1", "partial")
    assert "- stray: it is outside of the agent's region" in tree["note"]
    assert "in its region are merged into your files: sub/b. These are not:" in tree["note"]
    assert git(folder, "show", f"{tree['branch']}:stray") == "x"
    assert (folder / "a").exists()
    assert not (folder / "stray").exists()
    assert heard["w2"]["worktree"]["result"] == "merged"
    assert (folder / "sub" / "b").read_text() == "w2\n"
    for name, agent in agents.items():
        below = ", ".join(f'"{path}"' for path in agent.grant.region)
        assert f"You write only below {below}. " in prompts[name]
        assert all(path.startswith(str(tmp_path / "trees")) for path in agent.grant.region)


async def test_no_two_worktrees_own_one_path_of_the_repository_nor_one_and_the_folder(
    opened, folder
):
    async def holder(agent):
        await agent.call("ask_parent", question="more?")
        await agent.complete()

    async def master(agent):
        await agent.spawn(name="w1", worktree=True, region=["sub", "a"])
        message = await agent.call("wait_for_message")
        for region in (["sub"], ["sub/b"], ["a"], ["."], ["sub/new.py"]):
            for more in ({"worktree": True}, {}):
                refused = await agent.refused("spawn_child", prompt="x", region=region, **more)
                assert refused == "region_taken", (region, more)
        await agent.spawn(name="other", worktree=True, region=["b"], wait=True)
        about = {"child_id": message["from"], "correlation_id": message["correlation_id"]}
        await agent.call("respond_to_child", response="go on", **about)
        await agent.collect()
        await agent.spawn(name="late", worktree=True, region=["sub"], wait=True)
        await agent.complete()

    async def late(agent):
        await agent.complete()

    async with opened() as team:
        result = await team.run(master=master, w1=holder, other=late, late=late)
    assert result.status == "completed"


async def test_by_the_settings_each_worker_that_may_write_has_one_in_its_own_folder(
    opened, folder, tmp_path
):
    places = {}

    async def worker(agent):
        places[agent.name] = here(agent)
        await agent.complete()

    async def master(agent):
        await agent.spawn(name="w1", cwd="sub", region=["x"])
        await agent.spawn(name="w2", tools=["Read"])
        await agent.spawn(name="w3", worktree=False)
        await agent.collect(3)
        await agent.complete()

    async with opened(settings={"workspace": {"worktrees": "writers"}}) as team:
        await team.run(master=master, w1=worker, w2=worker, w3=worker)
        w1 = team["w1"].descriptor
    top = tmp_path / "trees"
    assert places["w1"].is_relative_to(top)
    assert places["w1"].name == "sub"
    assert w1.grant.region == (str(places["w1"] / "x"),)
    assert "worktree of your own" in w1.system_prompt
    assert places["w2"] == places["w3"] == folder
    assert merges(team)["w1"]["result"] == "nothing"
    assert set(merges(team)) == {"w1"}


async def test_a_profile_says_whether_its_agents_have_one_unless_the_spawn_does(opened, folder):
    places = {}

    async def worker(agent):
        places[agent.name] = here(agent)
        await agent.complete()

    async def master(agent):
        await agent.spawn(name="w1", profile="apart")
        await agent.spawn(name="w2", profile="apart", worktree=False)
        await agent.spawn(name="w3", profile="beside")
        await agent.spawn(name="w4", profile="as_set")
        await agent.collect(4)
        await agent.complete()

    profile = {"system_prompt": "x", "role": "worker"}
    wanted = {"apart": {"worktree": True}, "beside": {"worktree": False}, "as_set": {}}
    experts = {name: {**profile, **more} for name, more in wanted.items()}
    settings = {"workspace": {"worktrees": "writers"}, "experts": experts}
    async with opened(settings=settings) as team:
        await team.run(master=master, w1=worker, w2=worker, w3=worker, w4=worker)
    assert {name for name, place in places.items() if place != folder} == {"w1", "w4"}


async def test_where_none_can_be_made_the_spawn_is_refused_with_the_cure(opened, folder):
    shutil.rmtree(folder / ".git")

    async def master(agent):
        outcome = await agent.outcome("spawn_child", {"prompt": "x", "worktree": True})
        error = outcome.data["error"]
        assert error["code"] == "no_worktree"
        assert "git init" in error["hint"]
        task = {"prompt": "x", "worktree": True}
        again = await agent.outcome("spawn_children_parallel", {"children": [task, task]})
        assert again.data["error"]["code"] == "no_worktree"
        assert await agent.spawn() == "w1"
        await agent.collect()
        await agent.complete()

    async with opened() as team:
        assert (await team.run(master=master)).status == "completed"


async def test_a_child_of_a_child_in_a_worktree_works_there_or_is_merged_there(opened, folder):
    async def below(agent):
        here(agent, agent.name).write_text("x\n")
        await agent.complete()

    async def worker(agent):
        await agent.spawn(name="same")
        await agent.spawn(name="own", worktree=True)
        await agent.collect(2)
        assert here(agent, "same").exists()
        assert here(agent, "own").exists()
        assert not (folder / "own").exists()
        await agent.complete()

    async def master(agent):
        await agent.spawn(name="w1", worktree=True)
        await agent.collect()
        await agent.complete()

    async with opened() as team:
        await team.run(master=master, w1=worker, same=below, own=below)
    assert (folder / "same").exists()
    assert (folder / "own").exists()
    assert {name: one["files"] for name, one in merges(team).items()} == {
        "own": ["own"],
        "w1": ["own", "same"],
    }


async def test_a_child_that_is_restarted_works_in_its_worktree_again(opened, folder, tmp_path):
    places = []

    async def worker(agent):
        places.append(here(agent))
        here(agent, f"n{agent.turn}").write_text("x\n")
        await agent.complete()

    async def master(agent):
        await agent.spawn(name="w1", worktree=True)
        await agent.collect()
        assert (folder / "n1").exists()
        await agent.call("restart_child", child_id="w1", prompt="more")
        await agent.collect()
        await agent.complete()

    async with opened() as team:
        await team.run(master=master, w1=worker)
        assert is_clean(folder, tmp_path)
    assert places[0] == places[1]
    assert (folder / "n2").exists()


async def spawning(agent):
    await agent.spawn(name="w1", worktree=True)
    await agent.collect()
    await agent.complete()


async def test_an_agent_that_goes_on_after_a_crash_has_its_worktree_and_what_it_did(
    opened, folder, tmp_path
):
    async def worker(agent):
        here(agent, "new").write_text("1\n")
        await die(team)

    async def again(agent):
        assert here(agent, "new").read_text() == "1\n"
        here(agent, "more").write_text("2\n")
        await agent.complete()

    async with opened(check=False) as team:
        await run_to_death(team, master=spawning, w1=worker)
    async with opened() as later:
        assert (await go_on(later, master=complete, w1=again)).status == "completed"
        assert is_clean(folder, tmp_path)
    assert (folder / "new").exists()
    assert merges(later)["w1"]["files"] == ["more", "new"]


async def test_a_merge_whose_end_was_not_written_is_told_once_by_the_next_engine(
    opened, folder, tmp_path
):
    async def worker(agent):
        here(agent, "new").write_text("1\n")
        await agent.complete()

    async def again(agent):
        await agent.complete()

    async with opened(check=False) as team:
        dies_at(team, AgentEnded)
        await run_to_death(team, master=spawning, w1=worker)
        assert merges(team) == {}
    (folder / "new").write_text("1\na person's\n")
    async with opened() as later:
        assert (await go_on(later, master=complete, w1=again)).status == "completed"
        assert is_clean(folder, tmp_path)
    assert [one["result"] for one in later.ledger.events("worktree_merged")] == ["merged"]
    assert (folder / "new").read_text() == "1\na person's\n"


async def test_what_a_dead_engine_did_not_remove_is_removed_by_the_next(opened, folder, tmp_path):
    async def worker(agent):
        here(agent, "new").write_text("1\n")
        await agent.complete()

    async with opened(check=False) as team:
        dies_after(team, AgentEnded)
        await run_to_death(team, master=spawning, w1=worker)
        assert merges(team)["w1"]["result"] == "merged"
    async with opened() as later:
        await go_on(later, master=complete)
        assert is_clean(folder, tmp_path)
    assert (folder / "new").exists()


async def test_a_worktree_whose_agent_was_not_born_is_removed_by_the_next_engine(
    opened, folder, tmp_path
):
    async with opened(check=False) as team:
        dies_at(team, AgentSpawned)
        team.provider.behaviours["master"] = spawning
        commit, births = team.store.commit, 0

        async def cut_off(step):
            nonlocal births
            births += step.find(AgentSpawned) is not None
            if births == 1:  # the master's
                return await HeldStore.commit(team.store, step)
            return await commit(step)

        vars(team.store)["commit"] = cut_off
        await run_to_death(team, master=spawning)
    [left] = (tmp_path / "trees").glob("*/*")
    places = []

    async def worker(agent):
        places.append(here(agent))
        await agent.complete()

    async with opened() as again:
        await go_on(again, master=complete, w1=worker)  # its call is made again
        assert is_clean(folder, tmp_path)
    assert places == [left]
