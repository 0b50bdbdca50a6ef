"""The table of hostile trees, in worktrees: each begins as its parent is, and is merged exact."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from prsm_files.shadow.whereabouts import Where
from prsm_files.worktrees.worktrees import Whose, Worktrees

from plugins.prsm_files.tests.shadow_scene import Scene, every_byte
from plugins.prsm_files.tests.test_hostile_changes import kinds
from plugins.prsm_files.tests.test_hostile_trees import TREES, a_conflict, no_commit_at_all
from prsm_core.errors import ConfigError

pytestmark = [
    pytest.mark.requirement("U12"),
    pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed"),
]

REFUSED = {  # what keeps a worktree from being made, with the cure
    no_commit_at_all: "git commit --allow-empty",
    a_conflict: "git merge --abort",
}
NO_FILES = {b"pipe", b"sock"}  # stay where they are
IGNORED = {b"out/a.o"}  # are not merged, and go with the worktree


@pytest.fixture
def scene(tmp_path, monkeypatch):
    scene = Scene(tmp_path)
    monkeypatch.chdir(scene.folder)  # a socket's path has few characters
    scene.write("first", "1")
    scene.commit()
    return scene


def persons(scene):
    """Return what no worktree may change; agents' branches come and go."""
    heads = scene.git("for-each-ref", "refs/heads/main", "refs/heads/other", "refs/stash")
    return {**scene.person(), "refs": heads, "staged": scene.staged()}


@pytest.mark.parametrize("tree", [one for one in TREES if one not in REFUSED])
def test_a_worktree_begins_as_its_parent_is_and_is_merged_exact(scene, tmp_path, tree):
    steps = tree(scene)
    next(steps)
    parent, before, person = scene.folder, every_byte(scene.folder), persons(scene)
    (scene.home / "ran").unlink(missing_ok=True)
    trees = Worktrees(scene.shadow(), Where(scene.state, tmp_path / "trees"))
    made = trees.make(Whose("session", "id", "w")).tree
    found = every_byte(made.folder)
    assert found == {path: one for path, one in before.items() if path not in NO_FILES}
    assert not (scene.home / "ran").exists(), "no program of the configuration has run"
    scene.folder = Path(made.folder)
    assert not list(steps)  # what the agent does there
    wanted = kinds(scene.folder)
    scene.folder = parent
    (scene.home / "ran").unlink(missing_ok=True)
    outcome = trees.settle(made.id, "what it did")
    assert (outcome.result, outcome.conflicts) == ("merged", ())
    now = kinds(parent)
    assert {path: one for path, one in now.items() if path not in NO_FILES} == {
        path: one for path, one in wanted.items() if path not in IGNORED
    }
    assert trees.finish(made.id)
    assert not Path(made.folder).exists()
    assert not (scene.home / "ran").exists(), "no program of the configuration has run"
    assert persons(scene) == person
    assert not scene.git("branch", "--list", "prsm/*")


@pytest.mark.parametrize("tree", REFUSED)
def test_where_none_can_be_made_nothing_changes_and_the_cure_is_told(scene, tmp_path, tree):
    next(tree(scene))
    before, person = every_byte(scene.folder), scene.person()
    trees = Worktrees(scene.shadow(), Where(scene.state, tmp_path / "trees"))
    with pytest.raises(ConfigError) as refused:
        trees.make(Whose("session", "id", "w"))
    assert refused.value.code == "no_worktree"
    assert REFUSED[tree] in str(refused.value.hint)
    assert (every_byte(scene.folder), scene.person()) == (before, person)
    assert not list((tmp_path / "trees").glob("*/*"))
