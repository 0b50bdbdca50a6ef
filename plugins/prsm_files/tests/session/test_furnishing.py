"""A new worktree has what git ignores where the configuration says so, before its agent begins."""

from __future__ import annotations

import os
import shutil
from functools import partial
from pathlib import Path

import pytest
from prsm_files.shadow.opening import Shadows

from plugins.prsm_files.tests.session.test_trees import git, here, is_clean
from prsm_core.config.schema import WorkspaceSettings
from tests.engine.harness import open_team

pytestmark = [
    pytest.mark.requirement("U36"),
    pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed"),
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A workspace below the top of its repository, with files that git ignores."""
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    work = tmp_path / "workspace"
    work.mkdir()
    (work / "a").write_text("a\n")
    (work / ".gitignore").write_text(".env\nvendor/\nmade\n")
    git(work, "init", "-q", "-b", "main")
    git(work, "add", "-A")
    git(work, "-c", "user.name=n", "-c", "user.email=e@x", "commit", "-q", "-m", "first")
    (work / ".env").write_text("PORT=1\n")
    (work / ".env").chmod(0o600)
    (work / "vendor" / "deep").mkdir(parents=True)
    (work / "vendor" / "deep" / "x").write_text("x\n")
    (work / "vendor" / "link").symlink_to("deep/x")
    return work


@pytest.fixture
def opened(tmp_path, folder):
    shadows = Shadows(state=tmp_path / "state", data=tmp_path / "data", trees=tmp_path / "trees")

    def opened(trusted=True, **workspace):
        config = {"trusted": trusted}
        settings = {"workspace": workspace}
        return open_team(
            tmp_path, on_ask="allow", shadows=shadows, settings=settings, config=config
        )

    return opened


async def see(opened, look, **workspace):
    """Return what a child in a worktree sees, and the warnings of its run."""
    seen = []

    async def worker(agent):
        seen.append(look(partial(here, agent)))
        await agent.complete()

    async def master(agent):
        await agent.spawn(name="w1", worktree=True)
        await agent.collect()
        await agent.complete()

    async with opened(**workspace) as team:
        result = await team.run(master=master, w1=worker)
        assert result.status == "completed"
    return seen, [event["text"] for event in team.ledger.events("notice")]


async def test_files_and_folders_that_git_ignores_are_copied(opened, folder, tmp_path):
    def look(there):
        assert there(".env").stat().st_mode & 0o777 == 0o600
        assert there("vendor/link").readlink() == Path("deep/x")
        there(".env").write_text("the agent's\n")
        return there("vendor/deep/x").read_text()

    seen, warnings = await see(opened, look, worktree_copy=[".env", "vendor"])
    assert (seen, warnings) == (["x\n"], [])
    assert (folder / ".env").read_text() == "PORT=1\n"
    assert is_clean(folder, tmp_path)


async def test_what_is_missing_or_leads_outside_is_named_and_the_agent_begins(opened, folder):
    (folder / "out").symlink_to(folder.parent)
    (folder.parent / "private").write_text("p\n")
    names = [".env", "gone", "out/private"]
    seen, warnings = await see(opened, lambda there: there(".env").exists(), worktree_copy=names)
    assert seen == [True]
    assert [text.partition(": ")[2].partition(":")[0] for text in warnings] == [
        "gone is not copied",
        "out/private is not copied",
    ]


async def test_what_is_in_the_worktree_is_not_copied_over(opened, folder):
    git(folder, "rm", "-q", "--cached", "a")
    seen, _ = await see(opened, lambda there: there("a").read_text(), worktree_copy=["a"])
    assert seen == ["a\n"]


async def test_the_set_up_runs_in_the_worktree_before_its_agent(opened, folder):
    look = lambda there: there("made").read_text()  # noqa: E731 - one expression
    seen, _ = await see(opened, look, worktree_setup="pwd > made", worktree_copy=[".env"])
    assert seen != [f"{folder}\n"]
    assert seen[0].endswith("w1\n")
    assert not (folder / "made").exists()


@pytest.mark.parametrize(
    ("command", "trusted", "why"),
    [
        ("echo '3 vulnerabilities'; echo x > a; exit 7", True, "exit code 7\\n3 vulnerabilities"),
        ("echo x > made", False, "not trusted"),
    ],
)
async def test_where_the_set_up_fails_there_is_no_agent_and_no_worktree(
    opened, folder, tmp_path, command, trusted, why
):
    answers = []

    async def master(agent):
        call = {"prompt": "x", "name": "w1", "worktree": True}
        answers.append((await agent.outcome("spawn_child", call)).text)
        await agent.complete()

    async with opened(trusted, worktree_setup=command) as team:
        await team.run(master=master)
        assert is_clean(folder, tmp_path)
    assert why in answers[0]
    assert "worktree: false" in answers[0]
    assert not (folder / "made").exists()


@pytest.mark.parametrize("path", ["/etc/passwd", "~/x", "../x", "a/../../x", ""])
def test_a_path_outside_of_the_workspace_is_refused(path):
    with pytest.raises(ValueError, match=r"worktree_copy\[0\]"):
        WorkspaceSettings.of({"worktree_copy": [path]})


def test_names_of_links_are_copied_as_links(tmp_path):
    from prsm_files.session.trees import copy_all

    source, target = tmp_path / "s", tmp_path / "t"
    source.mkdir()
    target.mkdir()
    (source / "link").symlink_to("/etc")
    assert list(copy_all(["link"], source, target)) == []
    assert os.readlink(target / "link") == "/etc"  # noqa: PTH115 - as it is


async def test_each_worktree_has_a_port_of_its_own_that_it_keeps(opened, folder):
    seen: dict[str, list[dict[str, str]]] = {}
    tools: dict[str, list[str]] = {}

    async def worker(agent):
        request = agent.session.request
        seen.setdefault(agent.name, []).append(dict(request.variables))
        printed = await agent.call("run_bash", command="printenv PRSM_PORT")
        tools.setdefault(agent.name, []).append(printed["stdout"].strip())
        here(agent, f"of-{agent.name}").write_text(f"{len(tools[agent.name])}\n")
        await agent.complete()

    async def master(agent):
        assert agent.session.request.variables == {}
        task = {"prompt": "work", "worktree": True}
        await agent.call("spawn_children_parallel", children=[task, task])
        first, _ = await agent.collect(2)
        await agent.call("restart_child", child_id=first["name"], prompt="again")
        await agent.collect()
        await agent.complete()

    command = 'test -n "$PRSM_PORT" && echo $PRSM_PORT > made'
    async with opened(worktree_setup=command) as team:
        result = await team.run(master=master, w1=worker, w2=worker)
    assert result.status == "completed"
    assert {name: [one["PRSM_PORT"] for one in each] for name, each in seen.items()} == tools
    ports = [{int(port) for port in each} for each in tools.values()]
    assert [len(one) for one in ports] == [1, 1]
    assert ports[0] != ports[1]
    assert all(20_000 <= port < 30_000 for one in ports for port in one)


def test_a_port_that_somebody_listens_on_or_another_worktree_has_is_not_given(tmp_path):
    import socket

    from prsm_files.shadow.whereabouts import Where
    from prsm_files.worktrees import records
    from prsm_files.worktrees.making import free_port

    where = Where(tmp_path / "state", tmp_path / "trees")
    first = free_port(where, "tree")
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", first))
        listener.listen()
        second = free_port(where, "tree")
    tree = records.Tree(
        id="other",
        key="k",
        session="s",
        agent="a",
        name="n",
        branch="b",
        folder="f",
        parent="p",
        commit="c",
        parts=(records.Part(path="", origin="o", base="o"),),
        port=first,
    )
    records.write(where, tree)
    assert first != second == free_port(where, "tree")
