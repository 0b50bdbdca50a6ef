"""Moments that are bad for a snapshot, a restore or a worktree: all is as before, or as wanted."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from itertools import count

import pytest
from prsm_files.shadow.git import Output

from plugins.prsm_files.tests.changes_scene import Tracked, found_by, wanted
from plugins.prsm_files.tests.commits_scene import Committed
from plugins.prsm_files.tests.shadow_scene import (
    DirectGit,
    Scene,
    every_byte,
    small_files,
    under_way,
)
from plugins.prsm_files.tests.test_worktrees import NOTHING_LEFT, names
from plugins.prsm_files.tests.trees_scene import Grove, inside, text
from prsm_core.errors import ConfigError, PrsmError
from tests.plain_user import as_plain_user

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

NOISE = os.urandom(200_000)  # no compression makes it small


@pytest.fixture
def scene(tmp_path):
    scene = Scene(tmp_path)
    scene.write("first", "1")
    scene.commit()
    return scene


@pytest.mark.parametrize("what", ["merge", "rebase", "bisect", "cherry-pick"])
def test_what_is_under_way_goes_on_after_a_restore(scene, what):
    under_way(scene, what)
    before, staged, status = every_byte(scene.folder), scene.staged(), scene.git("status")
    person = scene.person()
    taken = scene.take()
    scene.write("a", "another\n")
    scene.write("new", "1\n")
    scene.git("add", "-A")
    restored = scene.shadow().restore(taken.id)
    assert not restored.differs
    assert not restored.notes
    assert (every_byte(scene.folder), scene.staged()) == (before, staged)
    assert (scene.git("status"), scene.person()) == (status, person)


@pytest.mark.parametrize("what", ["merge", "rebase", "bisect", "cherry-pick"])
def test_what_has_come_under_way_since_keeps_its_staging_area_and_that_is_said(scene, what):
    scene.write("a", "0\n")
    scene.commit()
    taken = scene.take()
    before = every_byte(scene.folder)
    under_way(scene, what)
    staged, status, person = scene.staged(), scene.git("status", "--short"), scene.person()
    restored = scene.shadow().restore(taken.id)
    assert restored.notes, "the staging area is not that of the snapshot"
    assert every_byte(scene.folder) == before
    assert (scene.staged(), scene.person()) == (staged, person)
    scene.shadow().undo()
    assert scene.git("status", "--short") == status


def test_a_file_that_changes_while_a_snapshot_is_taken_is_whole_in_it(scene):
    """It has the one text or the other, and the next snapshot the newer one."""
    scene.write("a", "old\n")
    wrote: list[bool] = []
    run = scene.run

    def meanwhile(args, **more):
        done = run(args, **more)
        if not wrote and {"add", "update-index", "hash-object"} & set(args):
            wrote.append(bool(scene.write("a", "newer\n")))
        return done

    scene.run = meanwhile
    first = scene.take()
    assert wrote
    scene.run = run
    second = scene.take()
    scene.shadow().restore(first.id)
    assert scene.read("a") in {"old\n", "newer\n"}
    scene.shadow().restore(second.id)
    assert scene.read("a") == "newer\n"


def test_a_repository_that_was_moved_has_its_snapshots_where_it_was(scene):
    """Snapshots are of a folder, by its path: once it is moved back they are there."""
    scene.write("a", "1\n")
    taken = scene.take()
    moved = scene.folder.with_name("moved")
    scene.folder.rename(moved)
    with pytest.raises(ConfigError) as caught:
        scene.take()
    assert caught.value.hint
    assert scene.shadow(moved).snapshots() == []
    moved.rename(scene.folder)
    scene.write("a", "2\n")
    scene.shadow().restore(taken.id)
    assert scene.read("a") == "1\n"


def test_a_snapshot_for_which_the_disk_has_no_room_is_none(scene):
    scene.take()
    scene.write("large", NOISE)
    before = every_byte(scene.folder)
    kept = scene.shadow().snapshots()
    with small_files(), pytest.raises(PrsmError) as caught:
        scene.take()
    assert caught.value.hint
    assert scene.shadow().snapshots() == kept
    taken = scene.take()
    scene.write("large", "2")
    scene.shadow().restore(taken.id)
    assert every_byte(scene.folder) == before


def test_changes_that_the_disk_has_no_room_for_are_found_by_the_next_look(tmp_path):
    scene = Tracked(tmp_path)
    scene.write("a", "1\n")
    scene.commit()
    tracker = scene.begin()
    scene.write("a", "2\n")
    scene.write("large", NOISE)
    with small_files(), pytest.raises(PrsmError):
        tracker.scan()
    found = found_by(tracker)
    assert sorted(one.path for one in found.found) == ["a", "large"]
    assert found.notes == ()
    assert {one.new for one in scene.rejecter().reject("s", wanted(found.found)).act.verdicts} == {
        "rejected"
    }
    assert scene.read("a") == "1\n"
    assert not (scene.folder / "large").exists()


class FailsOnce(DirectGit):
    """Fails the n-th command."""

    def __init__(self, number):
        super().__init__()
        self.number = number

    def __call__(self, args, **more):
        is_it = len(self.calls) == self.number
        done = super().__call__(args, **more)
        return Output(128, b"", b"fatal: no memory") if is_it else done


def test_no_change_is_lost_for_one_command_of_git_that_fails(tmp_path):
    scene = Tracked(tmp_path)
    scene.write("gone", "1\n")
    scene.write("a", "1\n")
    scene.commit()
    tracker = scene.tracker(much=1)  # so that they are taken into the index, too
    tracker.begin()
    for number in count():
        scene.write("a", f"{number}\n{number}\n")
        scene.write(f"new{number}", "1\n")
        git = FailsOnce(number)
        tracker.use(scene.shadow(git=git))
        found = found_by(tracker)
        assert (sorted(one.path for one in found.found), found.notes) == (
            ["a", f"new{number}"],
            (),
        ), git.calls[number][-6:]
        if len(git.calls) <= number:
            break
    assert number > 5


def test_commits_for_which_the_disk_has_no_room_are_not_made(tmp_path):
    scene = Committed(tmp_path)
    scene.write("a", "1\n")
    scene.commit()
    scene.begin()
    accepted = scene.change("large", NOISE)
    before = scene.person(), scene.staged(), every_byte(scene.folder)
    with small_files(), pytest.raises(PrsmError):
        scene.commit_accepted(accepted)
    assert scene.committer().unfinished() is None
    assert (scene.person(), scene.staged(), every_byte(scene.folder)) == before
    [one] = scene.commit_accepted(accepted).commits
    assert scene.git("rev-parse", "HEAD") == one.id


def test_a_worktree_for_which_the_disk_has_no_room_is_not_made(tmp_path):
    scene = Grove(tmp_path)
    scene.write("large", NOISE)
    scene.take()
    before, persons = scene.bytes(), scene.everything()
    with small_files(), pytest.raises((PrsmError, OSError)):
        scene.make()
    assert names(scene) == NOTHING_LEFT
    assert (scene.bytes(), scene.everything()) == (before, persons)
    assert inside(scene.make(), "large").read_bytes() == NOISE


def worked(scene):
    """Make a worktree in which an agent has changed small files and made a large one."""
    tree = scene.make()
    inside(tree, "a").write_text(text(n2="the person's\n", n15="the agent's\n"))
    inside(tree, "b").unlink()
    inside(tree, "large").write_bytes(NOISE)
    return tree


@contextmanager
def no_room(files):
    """Be on a full disk while files are written."""
    assert files
    with small_files():
        yield


def test_a_merge_for_which_the_disk_has_no_room_is_taken_back_and_tried_again(tmp_path):
    scene = Grove(tmp_path)
    tree = worked(scene)
    before, persons = scene.bytes(), {**scene.everything(), "refs": ""}
    outcome = scene.settle(tree, writing=no_room)
    assert outcome.result == "conflict"
    assert [(one.path, one.why) for one in outcome.conflicts] == [
        ("large", "it cannot be written: File too large")
    ]
    assert scene.bytes() == before
    assert scene.settle(tree).result == "merged"
    assert scene.bytes() == {**every_byte(tree.folder), b"ignored": before[b"ignored"]}
    assert {**scene.everything(), "refs": ""} == persons


@as_plain_user
def test_a_merge_into_a_folder_that_is_read_only_is_taken_back_and_tried_again(tmp_path):
    scene = Grove(tmp_path)
    tree = worked(scene)
    inside(tree, "folder/c").write_text("the agent's\n")
    before = scene.bytes()
    (scene.folder / "folder").chmod(0o555)
    outcome = scene.settle(tree)
    (scene.folder / "folder").chmod(0o755)
    assert [(one.path, one.why) for one in outcome.conflicts] == [
        ("folder/c", "it cannot be written: Permission denied")
    ]
    assert scene.bytes() == before
    assert scene.settle(tree).result == "merged"
    assert scene.read("folder/c") == "the agent's\n"
