"""A git that is killed with its engine leaves its locks behind: they keep nobody out."""

from __future__ import annotations

from pathlib import Path

import pytest

from plugins.prsm_files.tests.changes_scene import Tracked, found_by, told
from plugins.prsm_files.tests.shadow_scene import DirectGit, every_byte
from plugins.prsm_files.tests.trees_scene import Grove, inside


class LeavingGit(DirectGit):
    """Finds, at the first command that wants it, every lock that a killed git may have left."""

    def __init__(self):
        super().__init__()
        self.left = set()

    def __call__(self, args, *, cwd, env, stdin=b""):
        for lock in self._locks(args, env, stdin):
            if lock not in self.left and lock.parent.is_dir():
                self.left.add(lock)
                lock.touch()
        return super().__call__(args, cwd=cwd, env=env, stdin=stdin)

    def _locks(self, args, env, stdin):
        git = Path(env.get("GIT_DIR", ""))
        if "shadows" not in git.parts:
            return
        if {"update-index", "read-tree", "write-tree"} & {*args}:
            yield Path(f"{env['GIT_INDEX_FILE']}.lock")
        if "update-ref" not in args:
            return
        yield git / "packed-refs.lock"
        words = [*args, *stdin.decode().split()]
        for ref in (word for word in words if word.startswith("refs/")):
            (git / ref).parent.mkdir(parents=True, exist_ok=True)
            yield git / f"{ref}.lock"


def test_snapshots_are_taken_restored_and_deleted_beside_them(tmp_path):
    scene = Grove(tmp_path)
    scene.run = git = LeavingGit()
    before, taken = every_byte(scene.folder), scene.take()
    scene.write("a", "other\n")
    scene.shadow().restore(taken.id)
    assert every_byte(scene.folder) == before
    scene.shadow().delete(taken.id)
    assert taken.id not in [one.id for one in scene.shadow().snapshots()]
    names = {lock.name for lock in git.left}
    assert {"index.lock", "packed-refs.lock", f"{taken.id}.lock"} <= names


def test_changes_are_found_beside_them(tmp_path):
    scene = Tracked(tmp_path)
    scene.write("a", "one\n")
    scene.commit()
    scene.run = git = LeavingGit()
    tracker = scene.begin()
    scene.write("a", "two\n")
    assert told(found_by(tracker)) == {"a": ("modified", 1, 1)}
    assert "base.lock" in {lock.name for lock in git.left}


def test_a_worktree_is_made_and_merged_beside_them(tmp_path):
    scene = Grove(tmp_path)
    scene.run = git = LeavingGit()
    tree = scene.make()
    inside(tree, "b").write_text("of w1\n")
    assert scene.settle(tree).result == "merged"
    assert scene.read("b") == "of w1\n"
    assert scene.trees().finish(tree.id)
    assert {"base.lock", "result.lock"} <= {lock.name for lock in git.left}


@pytest.mark.parametrize("name", ["index.lock", "refs/heads/main.lock"])
def test_those_of_the_persons_repository_are_the_persons(tmp_path, name):
    scene = Grove(tmp_path)
    lock = scene.folder / ".git" / name
    lock.touch()
    scene.take()
    assert lock.exists()
