"""The session of a repository that is open: a query of its ledger, also after a crash.

No marker file names it that a crash could leave behind, and nothing has to be saved.
"""

from __future__ import annotations

import asyncio
import json
import subprocess

import pytest

from prsm_core.config import ledger_path, resolve_paths
from prsm_core.workspace.identity import repo_identity
from tests.place import DEADLINE, Place

pytestmark = pytest.mark.requirement("D15")

QUESTION = {"id": "x", "question": "Which?", "options": ["red"]}
ASKS = [{"say": "I look around.", "ask_user": QUESTION}]


@pytest.fixture
def place(tmp_path):
    folder = tmp_path / "elsewhere"  # not where the tests themselves are
    folder.mkdir()
    place = Place(folder)
    place.script(master=ASKS)
    return place


@pytest.fixture
def folders(place, tmp_path):
    """A repository, a folder in it, a worktree of it, and a folder in that."""
    top, tree = place.workspace, tmp_path / "tree"
    git = ("git", "-C", top, "-c", "user.name=x", "-c", "user.email=x@example.com")
    for command in (
        ("init", "-q"),
        ("commit", "-q", "--allow-empty", "-m", "x"),
        ("worktree", "add", "-q", tree),
    ):
        subprocess.run([*git, *command], check=True)
    below = [folder / "a" / "b" for folder in (top, tree)]
    for folder in below:
        folder.mkdir(parents=True)
    return [top, below[0], tree, below[1]]


async def crashed(place):
    """Begin a run, and kill its engine while it waits; return its session."""
    scripted = ("--provider", "script", "--set", f"providers.script.scenario={place.scenario}")
    code, out, err = await place.run("run", "say it", "--detach", "--json", *scripted)
    assert code == 0, err
    session = json.loads(out)["session"]
    async with asyncio.timeout(DEADLINE):
        while not await place.events("question_asked"):
            pass
    place.kill()
    await place.until_gone()
    return session


async def active(place):
    """Return the session that commands mean which name none, from the place's folder."""
    code, out, err = await place.run("tree", "--json")
    assert code == 0, err
    return json.loads(out)["session"]


async def test_after_a_crash_it_is_found_from_every_folder_and_worktree_of_the_repository(
    place, folders
):
    first = await crashed(place)
    place.workspace = folders[3]
    second = await crashed(place)
    assert first != second
    for place.workspace in folders:
        assert await active(place) == second
        _, out, _ = await place.run("sessions", "list", "--json")
        rows = json.loads(out)
        assert [row["session"] for row in rows] == [second, first]
        assert {row["status"] for row in rows} == {"interrupted"}
    assert (await place.run("sessions", "delete", second, "--yes"))[0] == 0
    assert await active(place) == first  # no marker is left that names the other
    assert list(place.home.rglob(".active_session")) == []


async def test_another_repository_has_a_session_of_its_own(place, folders, tmp_path):
    await crashed(place)
    place.workspace = tmp_path / "another"
    place.workspace.mkdir()
    code, _, err = await place.run("tree", "--json")
    assert (code, "nothing was run yet" in err) == (1, True)
    mine = await crashed(place)
    assert await active(place) == mine


async def test_what_was_said_before_a_crash_is_exported_under_the_name_of_the_session(
    place, folders, tmp_path
):
    session = await crashed(place)
    place.workspace = folders[2]
    target = tmp_path / "saved"
    target.mkdir()
    assert (await place.run("export", "-o", str(target)))[0] == 0
    [file] = target.iterdir()
    assert file.name == f"{session}.json"
    saved = json.loads(file.read_text())
    assert {event["session_id"] for event in saved["events"]} == {session}
    said = [one["data"]["text"] for one in saved["events"] if one["type"] == "message_completed"]
    assert said == ["say it", "I look around."]  # of a turn that no one has closed
    assert [agent["name"] for agent in saved["agents"]] == ["master"]
    assert "question_asked" in {event["type"] for event in saved["events"]}
    [ledger] = place.home.rglob("ledger.db")
    key = repo_identity(folders[0]).key
    assert {repo_identity(folder).key for folder in folders} == {key}
    paths = resolve_paths(folders[0], place.env)
    assert ledger == ledger_path(paths, key)
    assert key in ledger.parts
