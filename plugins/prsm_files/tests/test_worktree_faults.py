"""Killed anywhere, a worktree is made or not, merged or not, and removed or not; never between."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest
from prsm_files.changes.acting import Rejecter
from prsm_files.worktrees.records import MERGING, SETTLED

from plugins.prsm_files.tests.shadow_scene import every_byte
from plugins.prsm_files.tests.test_worktrees import NOTHING_LEFT, names
from plugins.prsm_files.tests.trees_scene import Grove, inside, text

pytestmark = [
    pytest.mark.requirement("U12"),
    pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed"),
]

BEFORE_MERGE = 64  # steps of a process that settles, in which no file of the folder is written yet
WORKER = Path(__file__).with_name("trees_worker.py")


def run_worker(scene, step, act):
    """Let a process die before a step; return whether it came to its end."""
    done = subprocess.run(
        [sys.executable, str(WORKER), str(scene.home.parent), str(step), act],
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
        capture_output=True,
        check=False,
    )
    assert not done.stderr, done.stderr.decode()
    assert done.returncode in {0, -signal.SIGKILL}
    return done.returncode == 0


# Each step takes a process and some commands of git: by default some of them are tried.
STRIDES = pytest.mark.parametrize("stride", [12, pytest.param(1, marks=pytest.mark.long)])


class Prepared:
    """A scene that can be had again as it was, at the same place."""

    def __init__(self, tmp_path, prepare=lambda scene: None):
        self._base, self._saved = tmp_path / "scene", tmp_path / "saved"
        self._base.mkdir()
        self.scene = Grove(self._base)
        self.prepared = prepare(self.scene)
        self.keep()

    def keep(self):
        """Have what there is now again."""
        shutil.rmtree(self._saved, ignore_errors=True)
        shutil.copytree(self._base, self._saved, symlinks=True)

    def steps(self, stride):
        """Yield steps, each with the scene as it was."""
        for step in count(0, stride):
            shutil.rmtree(self._base)
            shutil.copytree(self._saved, self._base, symlinks=True)
            yield step, self.scene


def changed(scene, **more):
    """Make a worktree in which an agent has changed files."""
    tree = scene.make(**more)
    inside(tree, "a").write_text(text(n2="the person's\n", n15="the agent's\n"))
    inside(tree, "b").unlink()
    inside(tree, "b").mkdir()
    inside(tree, "b/was-a-file").write_text("1\n")
    shutil.rmtree(inside(tree, "folder"))
    inside(tree, "folder").symlink_to("b")
    inside(tree, "new").write_text("1\n")
    return tree


def strayed(scene):
    """Make one of an agent with a region, that has changed something else as well."""
    tree = changed(scene, region=("a", "b", "folder", "new"))
    inside(tree, "untracked").write_text("a stray\n")
    return tree


def settled(scene):
    tree = changed(scene)
    scene.settle(tree)
    return tree


@STRIDES
def test_killed_while_it_is_made_the_next_start_removes_it(tmp_path, stride):
    for step, scene in Prepared(tmp_path).steps(stride):
        before, persons = scene.bytes(), scene.everything()
        is_made = run_worker(scene, step, "make")
        assert scene.bytes() == before
        scene.trees().sweep(lambda _: True)
        assert names(scene) == NOTHING_LEFT
        assert (scene.bytes(), scene.everything()) == (before, persons)
        assert Path(scene.make().folder).is_dir()
        if is_made:
            break
    assert step > 12


@STRIDES
def test_killed_while_it_is_merged_the_next_start_has_all_of_it_or_nothing(tmp_path, stride):
    ends, prepared = set(), Prepared(tmp_path, changed)
    tree = prepared.prepared
    for step, scene in prepared.steps(stride):
        persons = {**scene.everything(), "refs": ""}
        before = scene.bytes()
        is_settled = run_worker(scene, step, "settle")
        was = scene.trees().find(tree.id).state
        assert not list(scene.folder.rglob(".prsm-*")), "git would take it in"
        if was != MERGING:
            assert scene.bytes() == before or was == SETTLED
        notes = scene.trees().sweep(lambda _: False)
        assert bool(notes) is (was == MERGING)
        is_merged = scene.bytes() != before
        assert is_merged is (was in {MERGING, SETTLED})
        ends.add(is_merged)
        assert scene.settle(tree).result == "merged"
        assert scene.bytes() == {**every_byte(tree.folder), b"ignored": before[b"ignored"]}
        act = scene.shadow().acts.last()
        assert act.id == scene.trees().find(tree.id).outcome.act
        assert scene.trees().finish(tree.id)
        Rejecter(scene.shadow()).undo(act)
        assert scene.bytes() == before, "a merge that was cut off is undone, too"
        assert names(scene) == NOTHING_LEFT
        assert {**scene.everything(), "refs": ""} == persons
        if is_settled:
            break
    assert step > 12
    assert ends == {True, False}


@pytest.mark.parametrize("stride", [18, pytest.param(1, marks=pytest.mark.long)])
def test_killed_while_a_region_is_merged_all_of_that_is_there_or_nothing(tmp_path, stride):
    ends, prepared = set(), Prepared(tmp_path, strayed)
    tree = prepared.prepared
    for step, scene in prepared.steps(stride):
        persons, before = {**scene.everything(), "refs": ""}, scene.bytes()
        is_settled = run_worker(scene, step, "settle")
        scene.trees().sweep(lambda _: False)
        is_merged = scene.bytes() != before
        ends.add(is_merged)
        outcome = scene.settle(tree)
        assert (outcome.result, [one.path for one in outcome.outside]) == ("partial", ["untracked"])
        kept = {path: before[path] for path in (b"ignored", b"untracked")}
        assert scene.bytes() == {**every_byte(tree.folder), **kept}
        assert not scene.trees().finish(tree.id)
        assert inside(tree, "untracked").read_text() == "a stray\n"
        assert {**scene.everything(), "refs": ""} == persons
        if is_settled:
            break
    assert ends == {True, False}


@STRIDES
def test_killed_while_it_is_removed_the_next_start_goes_on_with_that(tmp_path, stride):
    prepared = Prepared(tmp_path, settled)
    tree = prepared.prepared
    for step, scene in prepared.steps(stride):
        persons = {**scene.everything(), "refs": ""}
        merged = scene.bytes()
        is_gone = run_worker(scene, step, "finish")
        scene.trees().sweep(lambda _: False)
        if scene.trees().find(tree.id) is not None:
            assert scene.trees().finish(tree.id)
        assert names(scene) == NOTHING_LEFT
        assert (scene.bytes(), {**scene.everything(), "refs": ""}) == (merged, persons)
        if is_gone:
            break
    assert step > 5


def cut_off(tmp_path):
    """Return a scene whose merge was cut off after one file was written, and what was before."""
    prepared = Prepared(tmp_path, changed)
    for step, scene in prepared.steps(1):
        if step < BEFORE_MERGE:
            continue
        before = scene.bytes()
        run_worker(scene, step, "settle")
        found = scene.trees().find(prepared.prepared.id)
        now = scene.bytes()
        if found.state == MERGING and now != before:
            return prepared, before
    raise AssertionError


def test_who_writes_meanwhile_keeps_it_and_the_rest_is_taken_back(tmp_path):
    prepared, before = cut_off(tmp_path)
    scene, tree = prepared.scene, prepared.prepared
    scene.write("new", "a person's\n")
    [note] = scene.trees().sweep(lambda _: False)
    assert note.endswith("conflict")
    assert scene.bytes() == {**before, b"new": scene.bytes()[b"new"]}
    assert scene.read("new") == "a person's\n"
    outcome = scene.trees().find(tree.id).outcome
    assert [one.path for one in outcome.conflicts] == ["new"]
    assert not scene.trees().finish(tree.id)
    assert inside(tree, "new").read_text() == "1\n"


@STRIDES
def test_killed_while_it_is_taken_back_the_next_start_goes_on_with_that(tmp_path, stride):
    prepared, before = cut_off(tmp_path)
    prepared.scene.write("new", "a person's\n")
    before[b"new"] = prepared.scene.bytes()[b"new"]
    prepared.keep()
    for step, scene in prepared.steps(stride):
        is_over = run_worker(scene, step, "sweep")
        scene.trees().sweep(lambda _: False)
        assert scene.bytes() == before
        assert scene.trees().find(prepared.prepared.id).outcome.result == "conflict"
        if is_over:
            break
    assert step > 5


def test_two_engines_take_turns_in_a_repository(tmp_path):
    scene = Grove(tmp_path)
    workers = [
        subprocess.Popen(
            [sys.executable, str(WORKER), str(tmp_path), "100000", "make"],
            env={**os.environ, "PYTHONPATH": str(Path.cwd())},
            stderr=subprocess.PIPE,
        )
        for _ in range(3)
    ]
    assert [worker.communicate()[1] for worker in workers] == [b"", b"", b""]
    assert sorted(
        scene.git("branch", "--list", "prsm/*", "--format=%(refname:lstrip=4)").split()
    ) == [
        *("w1", "w1-2", "w1-3"),
    ]
